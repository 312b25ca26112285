// MPI_Allreduce of floats between the ranks, percentiles in microseconds; bench/ranks/compare builds and
// runs it.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int rounds = argc > 1 ? atoi(argv[1]) : 5000, warm_up = 200;
  double* const times = malloc(sizeof(double) * (size_t)rounds);
  for (int rows = 1; rows <= 16; rows *= 4) {
    const int count = rows * 4096;
    float* const in = calloc((size_t)count, sizeof(float));
    float* const out = calloc((size_t)count, sizeof(float));
    for (int round = -warm_up; round < rounds; ++round) {
      const double start = MPI_Wtime();
      MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      if (round >= 0) times[round] = 1e6 * (MPI_Wtime() - start);
    }
    qsort(times, (size_t)rounds, sizeof(double), compare);
    if (rank == 0) {
      printf("%-34s%8d%10.1f%10.1f%10.1f\n", "Open MPI allreduce", count * 4, times[rounds / 2],
             times[rounds * 9 / 10], times[rounds / 100 * 99]);
    }
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
