/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was decoded of an object, as text. */
#ifndef KUBE_NFTD_TESTS_OBJECT_TEXT_H
#define KUBE_NFTD_TESTS_OBJECT_TEXT_H

#include "kube-nftd/model.h"
#include "objects.h"

void write_service(FILE *out, const struct service *service);

/* How traffic for it is treated: what write_service() leaves out. */
void write_traffic(FILE *out, const struct service *service);

void write_slice(FILE *out, const struct endpoint_slice *slice);

void write_service_cidr(FILE *out, const struct service_cidr *service_cidr);

void write_node(FILE *out, const struct node *node);

/* All fields of @object, be it one that could not be read. */
void write_whole_object(FILE *out, const struct object *object);

#endif
