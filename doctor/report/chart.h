// A chart as inline SVG: steps over time, drawn by the writer of the page, so that it needs no script.
#pragma once

#include <string>
#include <vector>

#include "doctor/report/series.h"

namespace mroce::doctor {

// All charts of one page have the same width and the same time axis; `with_axis` adds its labels.
std::string svg_of(const Chart& chart, double seconds, bool with_axis);

// "0", "1.5 k", "250 M": three digits at most, and a blank that does not break.
std::string short_number(double value);
// Steps of 1, 2, 2.5 or 5 times a power of ten, at most `count` of them up to `top`.
double nice_step(double top, int count);
// Seconds as people say them, with the same unit all along an axis that ends at `end`.
std::string time_label(double seconds, double end);

}  // namespace mroce::doctor
