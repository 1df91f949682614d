// figures: the small arithmetic of measured numbers: medians, and table cells that may be empty.
// In: measured values. Out: one number, or one printed cell. Invariant: NAN means "not measured" and prints as -.
// Example: median_of((double[]){3, 1, 2}, 3) → 2
#pragma once

double median_of(double *values, int n);                            // sorts values; n ≥ 1
void cell_print(int width, const char *format, double value);       // right-aligned, after one space
