/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - parses "host:port" addresses, including IPv6, and checks host names. */
#include "cluster/resolve/address.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool mf_number_parse(const char *text, size_t len, int64_t min, int64_t max, int64_t *out)
{
    int64_t value = 0;

    if (len == 0 || len > 18) /* 18 digits always fit */
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        value = value * 10 + (text[i] - '0');
    }
    if (value < min || value > max)
        return false;
    *out = value;
    return true;
}

bool mf_host_is_name(const char *text, size_t len)
{
    if (len == 0 || len >= MF_HOST_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)text[i]) && !strchr(".-_", text[i]))
            return false;
    }
    return true;
}

/* The text between brackets; the resolver decides whether it is an address. */
static bool is_ipv6(const char *text, size_t len)
{
    if (len < 2 || len >= MF_HOST_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)text[i]) && !strchr(":.%", text[i]))
            return false;
    }
    return memchr(text, ':', len) != NULL;
}

static bool address_wrong(mf_address_error *error, const char *fix, const char *fmt, ...)
    MF_PRINTF(3, 4);

static bool address_wrong(mf_address_error *error, const char *fix, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(error->problem, sizeof error->problem, fmt, args);
    va_end(args);
    error->fix = fix;
    return false;
}

static bool parse_port(const char *text, mf_address *out, mf_address_error *error)
{
    int64_t port;

    if (!*text)
        return address_wrong(error, "write host:port, such as 10.0.0.4:2222",
                             "the port is missing");
    if (strspn(text, "0123456789") != strlen(text))
        return address_wrong(error, "write host:port, such as 10.0.0.4:2222",
                             "port '%.40s' is not a number", text);
    if (!mf_number_parse(text, strlen(text), 1, MF_PORT_MAX, &port))
        return address_wrong(error, "choose a port from 1 to 65535", "port %.40s is out of range",
                             text);
    out->port = (int)port;
    return true;
}

bool mf_address_parse(const char *text, mf_address *out, mf_address_error *error)
{
    const char *scheme = strstr(text, "://"), *host = text, *end = NULL, *port;

    if (!*text)
        return address_wrong(error, "write host:port, such as 10.0.0.4:2222",
                             "the address is empty");
    if (scheme)
        return address_wrong(error, "write only the address, host:port",
                             "'%.*s://' is in front of it",
                             (int)(scheme - text < 40 ? scheme - text : 40), text);
    if (*text == '[') {
        host = text + 1;
        end = strchr(host, ']');
        if (!end || !is_ipv6(host, (size_t)(end - host)))
            return address_wrong(error, "write IPv6 addresses as [fd00::4]:2222",
                                 "'%.60s' is no IPv6 address in brackets", text);
        port = end + 1;
        if (*port && *port != ':')
            return address_wrong(error, "write IPv6 addresses as [fd00::4]:2222",
                                 "'%.40s' follows the bracket", port);
    } else {
        end = text + strcspn(text, ":");
        port = end;
        if (*end && strchr(end + 1, ':'))
            return address_wrong(error, "write IPv6 addresses in brackets: [fd00::4]:2222",
                                 "'%.60s' has more than one ':'", text);
        if (!mf_host_is_name(host, (size_t)(end - host)))
            return address_wrong(error, "hosts have letters, digits, '.', '-' and '_'",
                                 "'%.60s' does not begin with a host's name", text);
    }
    (void)snprintf(out->host, sizeof out->host, "%.*s", (int)(end - host), host);
    return parse_port(*port == ':' ? port + 1 : port, out, error);
}
