/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kinds of API objects that are known. */
#ifndef KUBE_NFTD_MODEL_OBJECT_KIND_H
#define KUBE_NFTD_MODEL_OBJECT_KIND_H

enum object_kind { KIND_SERVICE, KIND_ENDPOINTSLICE, KIND_SERVICECIDR, KIND_NODE, KIND_COUNT };

/** "Service", "EndpointSlice", "ServiceCIDR" or "Node". */
const char *object_kind_name(enum object_kind kind);

#endif
