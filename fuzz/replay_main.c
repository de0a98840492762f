/* SPDX-License-Identifier: Apache-2.0 */
/* replay_main.c - runs a fuzz target on stored inputs, without libFuzzer.
 *
 * Usage: fuzz_x FILE_OR_DIRECTORY...
 *
 * Directories are read recursively. Each file's name is printed to stderr before it is run, so the
 * last printed name is the input that crashed. Fails if there is no input. */
#include <errno.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long n_inputs;

static void die(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(2);
}

static void replay(const char *path, size_t size)
{
    /* Exactly `size` bytes on the heap, so that reading one more is seen. */
    uint8_t *data = malloc(size > 0 ? size : 1);
    FILE *f = fopen(path, "rb");

    if (data == NULL || f == NULL)
        die(path);
    if (fread(data, 1, size, f) != size)
        die(path);
    fclose(f);
    fprintf(stderr, "%s\n", path);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    n_inputs++;
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)where;
    if (type == FTW_NS || type == FTW_DNR)
        die(path);
    if (type == FTW_F)
        replay(path, (size_t)st->st_size);
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (nftw(argv[i], visit, 16, FTW_PHYS) != 0)
            die(argv[i]);
    printf("%ld inputs\n", n_inputs);
    return n_inputs > 0 ? 0 : 1;
}
