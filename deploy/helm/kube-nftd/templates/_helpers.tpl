{{- /* The labels that Kubernetes recommends. The label "app" alone selects pods. */ -}}
{{- define "kube-nftd.podLabels" -}}
app.kubernetes.io/name: kube-nftd
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: proxy
app.kubernetes.io/part-of: kube-nftd
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
{{- define "kube-nftd.labels" -}}
{{ include "kube-nftd.podLabels" . }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}
