/* SPDX-License-Identifier: Apache-2.0 */
/* transport_registry.c - selection of transports and plugins, and errors for missing ones. */
#include "net/transport_registry.h"

#include "base/mem.h"
#include "base/plugin.h"
#include "mf_test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void beside_the_program(const char *name, char out[PATH_MAX])
{
    char self[PATH_MAX - 64];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    T_TRUE(n > 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    (void)snprintf(out, PATH_MAX, "%s/%s", self, name);
}

MF_TEST(comm_transports_are_found_by_name)
{
    const mf_transport_kind *kind;

    T_OK(mf_transport_find("local", &kind));
    T_TRUE(kind == &mf_transport_local);
    T_FAILS(MF_INVALID_ARGUMENT, "unknown transport 'pigeon': expected local, grpc, ucx or mpi",
            mf_transport_find("pigeon", &kind));
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMIX_RANK");
    unsetenv("PMI_RANK");
    unsetenv("PMI_FD");
    unsetenv("PMI_PORT");
    T_FAILS(MF_FAILED_PRECONDITION, "mpirun -n 4 meshflow", mf_transport_find("mpi", &kind));
}

static const char *chosen(const char *a, const char *b, const char *c)
{
    const char *const addresses[] = { a, b, c };
    const mf_transport_kind *kind;
    const mf_status st = mf_transport_choose(addresses, 3, &kind);

    return st == MF_OK ? kind->name : strstr(mf_error_message(), "'grpc'") ? "grpc" : "?";
}

MF_TEST(comm_transports_are_chosen_by_addresses)
{
    T_STREQ(chosen("127.0.0.1:1", "localhost:2", NULL), "local");
    T_STREQ(chosen("[::1]:1", "a-name", "127.0.0.9:3"), "local");
    T_STREQ(chosen("node1:1", "node1:2", "node1:3"), "local");
    T_STREQ(chosen("node1:1", "node2:1", NULL), "grpc");
    T_STREQ(chosen("127.0.0.1:1", "node2:1", NULL), "grpc");
    T_STREQ(chosen("node1:1", NULL, "localhost:1"), "grpc");
    T_STREQ(chosen(NULL, NULL, NULL), "local");
    T_STREQ(chosen("[fe80::1]:1", "[fe80::2]:1", NULL), "grpc");
}

MF_TEST(comm_plugins_that_are_missing_say_what_to_install)
{
    const mf_plugin_wanted wanted = { "nothing", "transport 'nothing'", "libnothing-dev",
                                      "libnothing1" };
    const mf_plugin_v1 *p;

    setenv("MESHFLOW_PLUGIN_PATH", "/nowhere:/neither", 1);
    T_FAILS(
        MF_NOT_FOUND,
        "the plugin for transport 'nothing' is not installed: no meshflow-nothing.so in /nowhere, "
        "/neither, ",
        mf_plugin_get(&wanted, &p));
    T_TRUE(strstr(mf_error_message(), "Debian package libnothing-dev") != NULL);
}

MF_TEST(comm_plugins_for_another_interface_are_refused_with_both_numbers)
{
    const mf_plugin_wanted wanted = { "wrong-abi", "a test", "none", "none" };
    char dir[PATH_MAX], words[100];
    const mf_plugin_v1 *p;

    beside_the_program("test-plugins", dir);
    setenv("MESHFLOW_PLUGIN_PATH", dir, 1);
    (void)snprintf(words, sizeof words,
                   "was built for plugin interface 4711, but this program has %d:", MF_PLUGIN_ABI);
    T_FAILS(MF_FAILED_PRECONDITION, words, mf_plugin_get(&wanted, &p));
    T_TRUE(p == NULL);
}

MF_TEST(comm_plugins_of_another_kind_are_refused)
{
    const mf_plugin_wanted wanted = { "x", "a test", "none", "libx1" };
    const mf_plugin_v1 *p;

    T_FAILS(MF_FAILED_PRECONDITION, "cannot load the plugin for a test",
            mf_plugin_open_file("/dev/null", &wanted, &p));
    T_FAILS(MF_FAILED_PRECONDITION, "libx1", mf_plugin_open_file("/no/such/file", &wanted, &p));
    T_FAILS(MF_FAILED_PRECONDITION, "does not export mf_plugin_open_v1()",
            mf_plugin_open_file("libm.so.6", &wanted, &p));
}

static void touch(const char *dir, const char *name)
{
    char path[PATH_MAX];
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "we");
    T_TRUE(f != NULL);
    (void)fclose(f);
}

MF_TEST(comm_security_comes_from_a_directory_or_the_environment)
{
    char dir[] = "/tmp/meshflow-test-XXXXXX", own[64], command[80];
    mf_security s = { 0 };
    char *memory;

    T_TRUE(mkdtemp(dir) != NULL);
    T_FAILS(MF_NOT_FOUND, "meshflow cert --out",
            mf_security_from_dir(dir, "worker 0", &s, &memory));
    touch(dir, "ca.pem");
    touch(dir, "cert.pem");
    touch(dir, "key.pem");
    T_OK(mf_security_from_dir(dir, "worker 0", &s, &memory));
    T_TRUE(strstr(s.cert, "/cert.pem") != NULL && strstr(s.cert, "worker-0") == NULL);
    mf_free(memory);
    (void)snprintf(own, sizeof own, "%s/worker-0", dir);
    T_EQ(mkdir(own, 0700), 0);
    touch(own, "ca.pem");
    touch(own, "cert.pem");
    touch(own, "key.pem");
    T_OK(mf_security_from_dir(dir, "worker 0", &s, &memory));
    T_TRUE(strstr(s.key, "/worker-0/key.pem") != NULL);
    mf_free(memory);
    s = (mf_security){ 0 };
    setenv("MESHFLOW_TLS_CA", "a", 1);
    setenv("MESHFLOW_TLS_CERT", "b", 1);
    setenv("MESHFLOW_TLS_KEY", "c", 1);
    mf_security_fill(&s);
    T_STREQ(s.ca, "a");
    T_STREQ(s.key, "c");
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    T_EQ(system(command), 0);
}
