// figures: medians and table cells. In: values. Out: a number, a cell. Invariant: NAN prints as -.
// Example: cell_print(8, "%.1f", NAN) prints "        -"
#include "app/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int value_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, value_compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void cell_print(int width, const char *format, double value) {
    char text[64];
    snprintf(text, sizeof text, format, value);
    printf(" %*s", width, isnan(value) ? "-" : text);
}
