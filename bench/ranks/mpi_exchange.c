// This program measures MPI_Allreduce of floats between the ranks, and MPI_Allgather into a matrix
// of the same size, and prints percentiles in microseconds. bench/ranks/compare builds and runs it.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const int kFloatsPerRow = 4096;
static const int kWarmUp = 200;

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void print(const char* what, size_t bytes, double* times, int rounds) {
  qsort(times, (size_t)rounds, sizeof(double), compare);
  printf("%-34s%8zu%10.1f%10.1f%10.1f\n", what, bytes, times[rounds / 2], times[rounds / 10 * 9],
         times[rounds / 100 * 99]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = argc > 1 ? atoi(argv[1]) : 5000;
  double* const reduce = malloc(sizeof(double) * (size_t)rounds);
  double* const gather = malloc(sizeof(double) * (size_t)rounds);
  for (int rows = 1; rows <= 64; rows *= 4) {
    const int count = rows * kFloatsPerRow;
    float* const in = calloc((size_t)count, sizeof(float));
    float* const out = calloc((size_t)count, sizeof(float));
    for (int round = -kWarmUp; round < rounds; ++round) {
      const double start = MPI_Wtime();
      MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      if (round >= 0) reduce[round] = 1e6 * (MPI_Wtime() - start);
    }
    for (int round = -kWarmUp; round < rounds; ++round) {
      const double start = MPI_Wtime();
      MPI_Allgather(in, count / size, MPI_FLOAT, out, count / size, MPI_FLOAT, MPI_COMM_WORLD);
      if (round >= 0) gather[round] = 1e6 * (MPI_Wtime() - start);
    }
    if (rank == 0) {
      print("Open MPI all-reduce", (size_t)count * sizeof(float), reduce, rounds);
      print("Open MPI all-gather", (size_t)count * sizeof(float), gather, rounds);
    }
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
