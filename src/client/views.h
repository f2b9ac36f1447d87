/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text layouts of explain, list and top. */
#ifndef KUBE_NFTD_CLIENT_VIEWS_H
#define KUBE_NFTD_CLIENT_VIEWS_H

#include "kube-nftd/serve.h"

extern const struct view view_explanation[], view_summary[], view_endpoints[], view_list[],
    view_names[], view_top[], view_top_endpoints[];

#endif
