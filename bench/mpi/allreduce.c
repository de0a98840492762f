/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce.c - Open MPI's all-reduce, as a peer of comm.py: the first process reads a number of
 * bytes per
 * line and prints seconds (median, best tenth). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { REPEATS = 400 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void measure(long bytes, int rank)
{
    const long count = bytes / 4, many = (256L << 20) / bytes;
    const int n = many < 5 ? 5 : many > REPEATS ? REPEATS : (int)many;
    float *data = malloc((size_t)bytes), *out = malloc((size_t)bytes);
    double seconds[REPEATS];

    for (long i = 0; i < count; i++)
        data[i] = out[i] = (float)rank;
    for (int i = -3; i < n; i++) {
        const double start = MPI_Wtime();

        MPI_Allreduce(data, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (i >= 0)
            seconds[i] = MPI_Wtime() - start;
    }
    free(data);
    free(out);
    qsort(seconds, (size_t)n, sizeof *seconds, by_value);
    if (rank == 0) {
        printf("%.9f %.9f\n", seconds[n / 2], seconds[n / 10]);
        fflush(stdout);
    }
}

/* MPI_Bcast() would spin and disturb the implementation that is measured meanwhile. */
static void await_size(long *bytes)
{
    MPI_Request request;
    int done = 0;

    MPI_Ibcast(bytes, 1, MPI_LONG, 0, MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        usleep(1000);
}

int main(int argc, char **argv)
{
    int rank;
    long bytes = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (bytes > 0) {
        char line[64];

        if (rank == 0)
            bytes = fgets(line, sizeof line, stdin) ? atol(line) : 0;
        await_size(&bytes);
        if (bytes > 0)
            measure(bytes, rank);
    }
    MPI_Finalize();
    return 0;
}
