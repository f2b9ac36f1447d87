/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "script_objects.h"

static void add_service_word(struct service *service, char *word)
{
    char *value;
    if (strcmp(word, "external-local") == 0)
        service->external_local = true;
    else if (strcmp(word, "internal-local") == 0)
        service->internal_local = true;
    else if (strcmp(word, "skipped") == 0)
        service->skipped = true;
    else if (script_option(word, "version", &value))
        object_version_set(&service->version, value);
    else if (script_option(word, "created", &value))
        service->created = strcmp(value, "never") == 0 ? INT64_MAX : atoll(value);
    else if (script_option(word, "external", &value))
        add_external_ips(service, value);
    else if (script_option(word, "balancer", &value))
        add_load_balancer_ips(service, value);
    else if (script_option(word, "from", &value))
        add_source_ranges(service, value);
    else if (script_option(word, "check", &value))
        service->health_check_node_port = (uint16_t)atoi(value);
    else if (script_option(word, "affinity", &value))
        service->affinity_timeout = (uint32_t)atoi(value);
    else if (strchr(word, '/'))
        vec_push(&service->ports, make_port(word));
    else
        add_address(service, word);
}

/* @word as often as it says. */
static void write_many(FILE *out, const char *word)
{
    const char *star = strchr(word, '*'), *dot = star;
    unsigned of[4], step = 1, n, length = 0;
    while (dot > word && strchr("0123456789.", dot[-1]))
        dot--;
    if (sscanf(dot, "%u.%u.%u.%u*%u%n", &of[0], &of[1], &of[2], &of[3], &n, &length) != 5)
        ck_abort_msg("%s", word);
    const char *behind = dot + length;
    if (*behind == 'x')
        step = (unsigned)strtoul(behind + 1, (char **)&behind, 10);
    unsigned address = of[0] << 24 | of[1] << 16 | of[2] << 8 | of[3];
    for (; n > 0; n--, address += step)
        fprintf(out, "%.*s%u.%u.%u.%u%s ", (int)(dot - word), word, address >> 24,
                address >> 16 & 255, address >> 8 & 255, address & 255, behind);
}

char *script_many(char *words)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    for (char *word; *(word = script_word(&words));) {
        if (strchr(word, '*'))
            write_many(out, word);
        else
            fprintf(out, "%s ", word);
    }
    fclose(out);
    return text;
}

struct service *script_service(char *words)
{
    char *many = script_many(words);
    words = many;
    struct service *service = make_service(script_word(&words), "", "");
    for (char *word; *(word = script_word(&words));)
        add_service_word(service, word);
    free(many);
    return service;
}

struct endpoint_slice *script_slice(char *words)
{
    char *many = script_many(words), *value = NULL;
    words = many;
    const char *id = script_word(&words);
    if (!script_option(script_word(&words), "of", &value))
        ck_abort_msg("%s is of nothing", id);
    enum family family = strstr(words, "::") ? FAMILY_IPV6 : FAMILY_IPV4;
    struct endpoint_slice *slice = make_slice(id, *value ? value : NULL, family, "", "");
    for (char *word; *(word = script_word(&words));) {
        if (script_option(word, "version", &value)) {
            object_version_set(&slice->version, value);
            continue;
        }
        if (!strchr(word, '/')) {
            vec_push(&slice->endpoints, make_endpoint(word, family));
            continue;
        }
        add_slice_port(slice, word);
    }
    endpoint_slice_sort_ports(slice);
    free(many);
    return slice;
}

struct frontend script_frontend(char *word)
{
    enum family family;
    char *bar = strchr(word, '|');
    struct frontend frontend = {.port = bar ? (uint16_t)atoi(bar + 1) : 80,
                                .protocol = strstr(word, "/UDP") ? 17 : 6};
    if (bar)
        *bar = '\0';
    frontend.address = make_address(word, &family);
    frontend.family = (uint8_t)family;
    return frontend;
}

static void write_version(FILE *out, const char *what, const struct object_version *version)
{
    char number[OBJECT_VERSION_SIZE];
    if (version)
        fprintf(out, "%s%s", what, object_version_text(version, number));
}

void write_versions(FILE *out, const struct object_versions *versions)
{
    fputs(versions->received ? "" : "gone", out);
    write_version(out, "", versions->received);
    write_version(out, " out=", versions->rejected);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (!versions->family[i].concerned)
            continue;
        fprintf(out, " %s", family_name((enum family)i));
        write_version(out, "=", versions->family[i].programmed);
        fputs(versions->family[i].applied ? "" : "!", out);
    }
    fputc('\n', out);
}
