// Runs a network of four ops in an arena that memplan has planned.
#include <math.h>
#include <stdio.h>

#include "network.h"

static _Alignas(NETWORK_ARENA_ALIGNMENT) unsigned char arena[NETWORK_ARENA_BYTES];

#define TENSOR(name) ((float*)(void*)(arena + NETWORK_##name##_OFFSET))
#define LENGTH(name) (NETWORK_##name##_BYTES / sizeof(float))

// Weights of the form ((i + 2 j) mod 5 - 2) / 4, as a stand-in for tables in flash.
static float weight(size_t i, size_t j) { return ((float)((i + 2 * j) % 5) - 2.0F) / 4.0F; }

static void dense(const float* x, size_t inputs, float* y, size_t outputs) {
  for (size_t j = 0; j < outputs; ++j) {
    y[j] = 0.0F;
    for (size_t i = 0; i < inputs; ++i) y[j] += weight(i, j) * x[i];
  }
}

static void relu(const float* x, float* y, size_t length) {
  for (size_t i = 0; i < length; ++i) y[i] = x[i] > 0.0F ? x[i] : 0.0F;
}

static void softmax(const float* x, float* y, size_t length) {
  float sum = 0.0F;
  for (size_t i = 0; i < length; ++i) sum += y[i] = expf(x[i]);
  for (size_t i = 0; i < length; ++i) y[i] /= sum;
}

int main(void) {
  const float x[] = {1.0F, -2.0F, 3.0F, 0.5F};
  dense(x, sizeof x / sizeof *x, TENSOR(HIDDEN), LENGTH(HIDDEN));
  relu(TENSOR(HIDDEN), TENSOR(ACTIVE), LENGTH(ACTIVE));  // in place: both lie on the same bytes
  dense(TENSOR(ACTIVE), LENGTH(ACTIVE), TENSOR(SCORES), LENGTH(SCORES));
  softmax(TENSOR(SCORES), TENSOR(SHARES), LENGTH(SHARES));
  for (size_t i = 0; i < LENGTH(SHARES); ++i) printf("%.4f ", (double)TENSOR(SHARES)[i]);
  printf("in %u bytes\n", NETWORK_ARENA_BYTES);
  return 0;
}
