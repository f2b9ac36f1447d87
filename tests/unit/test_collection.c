/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/collection.h"

#include "unit.h"

#include <string.h>

static void expect(char *path, const char *expected)
{
    ck_assert_str_eq(path, expected);
    free(path);
}

#define SERVICES                                                                                   \
    "/api/v1/services?labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"                 \
    "&fieldSelector=spec.clusterIP%21%3DNone"
#define SLICES                                                                                     \
    "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=%21service.kubernetes.io%2Fheadless"

TEST(lists)
{
    struct collection services = {.kind = KIND_SERVICE};
    struct collection slices = {.kind = KIND_ENDPOINTSLICE};
    expect(collection_list_path(&services, "0", true, NULL),
           SERVICES "&resourceVersion=0&limit=500");
    expect(collection_list_path(&slices, "1234", false, NULL), SLICES "&resourceVersion=1234");
    expect(collection_list_path(&slices, NULL, false, NULL), SLICES);
    expect(collection_list_path(&slices, NULL, false, "a+/="),
           SLICES "&limit=500&continue=a%2B%2F%3D");
}

TEST(own_node)
{
    char name[] = "node-1.example";
    char odd[] = "a&b=\xc3\xa9";
    struct collection node = {.kind = KIND_NODE, .node_name = name};
    expect(collection_list_path(&node, NULL, false, NULL),
           "/api/v1/nodes?fieldSelector=metadata.name%3Dnode-1.example");
    node.node_name = odd;
    expect(collection_list_path(&node, NULL, false, NULL),
           "/api/v1/nodes?fieldSelector=metadata.name%3Da%26b%3D%C3%A9");
}

/* No selectors. */
TEST(service_cidrs)
{
    struct collection cidrs = {.kind = KIND_SERVICECIDR};
    expect(collection_list_path(&cidrs, "0", true, NULL),
           "/apis/networking.k8s.io/v1/servicecidrs?resourceVersion=0&limit=500");
    expect(collection_watch_path(&cidrs, "77", 345),
           "/apis/networking.k8s.io/v1/servicecidrs?watch=true&allowWatchBookmarks=true"
           "&resourceVersion=77&timeoutSeconds=345");
}

/* The names that a role must grant, and where the server has them. */
TEST(resources)
{
    static const struct {
        const char *resource, *plural, *group, *api_version, *path;
    } names[KIND_COUNT] = {
        [KIND_SERVICE] = {"services", "services", "", "v1", "/api/v1/services?"},
        [KIND_ENDPOINTSLICE] = {"endpointslices.discovery.k8s.io", "endpointslices",
                                "discovery.k8s.io", "discovery.k8s.io/v1",
                                "/apis/discovery.k8s.io/v1/endpointslices?"},
        [KIND_SERVICECIDR] = {"servicecidrs.networking.k8s.io", "servicecidrs", "networking.k8s.io",
                              "networking.k8s.io/v1", "/apis/networking.k8s.io/v1/servicecidrs?"},
        [KIND_NODE] = {"nodes", "nodes", "", "v1", "/api/v1/nodes?"},
    };
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        struct collection collection = {.kind = (enum object_kind)kind};
        const struct api_resource *resource = collection_resource(collection.kind);
        ck_assert_str_eq(resource->name, names[kind].resource);
        ck_assert_str_eq(resource->plural, names[kind].plural);
        ck_assert_str_eq(resource->group, names[kind].group);
        ck_assert_str_eq(resource->api_version, names[kind].api_version);
        char *path = collection_watch_path(&collection, "1", 1);
        ck_assert_ptr_eq(strstr(path, names[kind].path), path);
        free(path);
    }
}
