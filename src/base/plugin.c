/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - finds and opens plugins, and defines the functions they may call. */
#include "base/plugin.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/host_state.h"
#include "base/log.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MF_LIBDIR /* where libraries are installed, relative to the prefix */
#define MF_LIBDIR "lib"
#endif

/* ---- what plugins may call ---- */

static mf_status host_fail(mf_status code, const char *file, int line, const char *function,
                           const char *message)
{
    return mf_error_new(code, file, line, function, "%s", message);
}

static void host_log(int level, const char *file, int line, const char *message)
{
    mf_log_write((mf_log_level)level, file, line, "%s", message);
}

static mf_plugin_host host = {
    .abi = MF_PLUGIN_ABI,
    .size = sizeof host,
    .allocate = mf_calloc,
    .release = mf_free,
    .clock_ns = mf_clock_ns,
    .fail = host_fail,
    .passed = mf_error_at,
    .message = mf_error_message,
    .log = host_log,
};

void mf_plugin_offer_frames(const mf_plugin_frames *frames)
{
    host.frame_write = frames->write;
    host.frame_read = frames->read;
}

/* ---- one file ---- */

static mf_status plugin_check(const char *path, const mf_plugin_v1 *p)
{
    if (!p)
        return MF_FAIL(MF_FAILED_PRECONDITION, "plugin %s refused to initialise", path);
    if (p->abi != MF_PLUGIN_ABI)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "%s was built for plugin interface %u, but this program has %u: build "
                       "both from the same sources",
                       path, p->abi, MF_PLUGIN_ABI);
    if (p->size < sizeof *p)
        return MF_FAIL(MF_FAILED_PRECONDITION, "%s is invalid: its table says %u bytes, not %zu",
                       path, p->size, sizeof *p);
    return MF_OK;
}

mf_status mf_plugin_open_file(const char *path, const mf_plugin_wanted *wanted,
                              const mf_plugin_v1 **out)
{
    /* The constructors of a library that was linked with -ffast-math set flush-to-zero. */
    MF_CALLBACK;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    mf_plugin_open_fn *open;
    const mf_plugin_v1 *p;
    void *symbol;

    *out = NULL;
    if (!handle)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "cannot load the plugin for %s: %s; install the "
                       "Debian package %s",
                       wanted->what, dlerror(), wanted->run_package);
    symbol = dlsym(handle, "mf_plugin_open_v1");
    if (!symbol)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "%s is not a Meshflow plugin: it does not export mf_plugin_open_v1()", path);
    memcpy(&open, &symbol, sizeof open); /* ISO C has no conversion from object to function
                                            pointers */
    p = open(&host);
    MF_TRY(plugin_check(path, p));
    *out = p;
    return MF_OK;
}

/* ---- search ---- */

/* The directory of the program or shared library that this code is part of. */
static bool own_directory(char out[PATH_MAX])
{
    struct link_map *map = NULL;
    Dl_info info;
    char *slash;
    const char *file = "/proc/self/exe";

    if (dladdr1(&host, &info, (void **)&map, RTLD_DL_LINKMAP) && map && map->l_name[0])
        file = map->l_name;
    if (!realpath(file, out))
        return false;
    slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    return slash != NULL;
}

/* Appends the path to `tried`; true: the file exists. */
static bool try_directory(const char *dir, size_t len, const char *name, mf_buf *tried,
                          char path[PATH_MAX])
{
    const int n = snprintf(path, PATH_MAX, "%.*s/meshflow-%s.so", (int)len, dir, name);

    mf_buf_printf(tried, "%s%.*s", tried->len > 0 ? ", " : "", (int)len, dir);
    return n > 0 && n < PATH_MAX && access(path, R_OK) == 0;
}

static bool find_in_path(const char *name, mf_buf *tried, char path[PATH_MAX])
{
    const char *list = secure_getenv("MESHFLOW_PLUGIN_PATH");

    for (const char *p = list ? list : ""; *p;) {
        const size_t len = strcspn(p, ":");

        if (len > 0 && try_directory(p, len, name, tried, path))
            return true;
        p += len + (p[len] == ':');
    }
    return false;
}

static bool find_beside_binary(const char *name, mf_buf *tried, char path[PATH_MAX])
{
    static const char *const places[] = { "meshflow", "../" MF_LIBDIR "/meshflow", "plugins" };
    char dir[PATH_MAX], at[PATH_MAX + 64];

    if (!own_directory(dir))
        return false;
    for (int i = 0; i < MF_COUNT(places); i++) {
        const int n = snprintf(at, sizeof at, "%s/%s", dir, places[i]);

        if (try_directory(at, (size_t)n, name, tried, path))
            return true;
    }
    return false;
}

static mf_status find_and_open(const mf_plugin_wanted *wanted, const mf_plugin_v1 **out)
{
    mf_buf tried = { 0 };
    char path[PATH_MAX];
    mf_status st;

    if (find_in_path(wanted->name, &tried, path) || find_beside_binary(wanted->name, &tried, path))
        st = mf_plugin_open_file(path, wanted, out);
    else
        st = MF_FAIL(MF_NOT_FOUND,
                     "the plugin for %s is not installed: no meshflow-%s.so in %s; install the "
                     "Debian package "
                     "%s and build again, or set MESHFLOW_PLUGIN_PATH to its directory",
                     wanted->what, wanted->name, tried.data ? tried.data : "",
                     wanted->build_package);
    mf_buf_deinit(&tried);
    return st;
}

/* ---- open plugins ---- */

enum { MAX_PLUGINS = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const char *name;
    const mf_plugin_v1 *plugin;
} opened[MAX_PLUGINS]; /* guarded by lock */

mf_status mf_plugin_get(const mf_plugin_wanted *wanted, const mf_plugin_v1 **out)
{
    mf_status st = MF_OK;
    int i = 0;

    *out = NULL;
    pthread_mutex_lock(&lock);
    while (i < MAX_PLUGINS && opened[i].name && strcmp(opened[i].name, wanted->name) != 0)
        i++;
    if (i == MAX_PLUGINS) {
        st = MF_FAIL(MF_RESOURCE_EXHAUSTED, "too many plugins are open");
    } else if (opened[i].name) {
        *out = opened[i].plugin;
    } else {
        st = find_and_open(wanted, out);
        if (st == MF_OK) {
            opened[i].name = wanted->name;
            opened[i].plugin = *out;
        }
    }
    pthread_mutex_unlock(&lock);
    return st;
}
