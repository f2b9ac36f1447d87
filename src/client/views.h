/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What people see of the daemon's answers. */
#ifndef KUBE_NFTD_SRC_CLIENT_VIEWS_H
#define KUBE_NFTD_SRC_CLIENT_VIEWS_H

#include "view.h"

extern const struct view view_explanation[], view_summary[]; /* of /explain */
extern const struct view view_endpoints[], view_wide_endpoints[];
extern const struct view view_list[], view_wide_list[], view_names[]; /* of /list */
extern const struct view view_status[];                               /* of /status */

#endif
