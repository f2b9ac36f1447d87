# SPDX-License-Identifier: GPL-2.0-or-later
"""Certificates and kubeconfig files for the tests, made with the openssl command."""

import base64
import pathlib
import subprocess

SUBJECT_NAMES = "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost,DNS:kubernetes.default.svc"
NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650".split()


def _issue(folder, name, subject, *more):
    subprocess.run(["openssl", "req", "-x509", *NEW_KEY, "-subj", subject,
                    "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt", *more],
                   check=True, capture_output=True)


def make(folder, user="system:kube-proxy"):
    """Writes ca, server and client (.crt and .key) into @folder unless they are there already."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "client.crt").exists():
        return folder
    _issue(folder, "ca", "/CN=test-ca", "-addext", "keyUsage=critical,keyCertSign")
    _issue(folder, "server", "/CN=kube-apiserver", *_signed(folder), "-addext", SUBJECT_NAMES,
           "-addext", "extendedKeyUsage=serverAuth")
    make_client(folder, "client", user)
    return folder


def _signed(folder):
    return ("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key",
            "-addext", "basicConstraints=critical,CA:FALSE")


def make_client(folder, name, user):
    """Writes one more client certificate and its key, @name.crt and @name.key."""
    _issue(folder, name, f"/O=system:node-proxier/CN={user}", *_signed(folder),
           "-addext", "extendedKeyUsage=clientAuth")


def inline(path):
    """A file as kubeconfig's ...-data fields hold it."""
    return base64.b64encode(pathlib.Path(path).read_bytes()).decode()


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: test
contexts:
- name: test
  context:
    cluster: test
    user: test
clusters:
- name: test
  cluster:
    server: {server}
{cluster}users:
- name: test
  user:{user}
"""


def write_kubeconfig(path, server, cluster, user):
    """Writes a kubeconfig; @cluster and @user hold its fields, such as {"token": "..."}."""
    def fields(values):
        return "".join(f"    {name}: {value}\n" for name, value in values.items())
    body = "\n" + fields(user).rstrip("\n") if user else " {}"
    text = KUBECONFIG.format(server=server, cluster=fields(cluster), user=body)
    pathlib.Path(path).write_text(text)
    return path
