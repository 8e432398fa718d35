#include "doctor/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "doctor/escape.h"

namespace mroce::doctor {
namespace {

constexpr double kWidth = 860, kLeft = 52, kRight = 26, kTop = 8, kHeight = 76, kAxis = 22;

struct Scale {
  double seconds = 1, top = 1;
  double x(double s) const { return kLeft + (kWidth - kLeft - kRight) * std::clamp(s / seconds, 0.0, 1.0); }
  double y(double value) const { return kTop + kHeight * (1 - std::clamp(value / top, 0.0, 1.0)); }
};

double greatest(const Chart& chart) {
  double top = 0;
  for (const Series& series : chart.series)
    for (const ChartStep& step : series.steps) top = std::max(top, step.value);
  return top;
}

double time_step(double seconds) {
  static constexpr std::array kSteps = {60.0,   120.0,  300.0,   600.0,   900.0,   1800.0,
                                        3600.0, 7200.0, 14400.0, 21600.0, 43200.0, 86400.0};
  constexpr int kTicks = 10;
  if (seconds <= 120) return nice_step(seconds, kTicks);
  for (const double step : kSteps)
    if (seconds / step <= kTicks) return step;
  return 86400 * nice_step(seconds / 86400, kTicks);
}

std::string grid(const Scale& scale, bool with_axis) {
  std::string out;
  const double step = time_step(scale.seconds);
  for (double s = 0; s <= scale.seconds * 1.0001; s += step) {
    const double x = scale.x(s);
    out += fmt::format("<path class=\"grid\" stroke=\"#8884\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>", x, kTop,
                       kTop + kHeight);
    if (with_axis)
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", x,
                         kTop + kHeight + 16, time_label(s, scale.seconds));
  }
  for (const double part : {0.0, 0.5, 1.0}) {
    const double y = scale.y(part * scale.top);
    out += fmt::format("<path class=\"grid\" stroke=\"#8884\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", kLeft, y,
                       kWidth - kRight);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 6, y + 4,
                       short_number(part * scale.top));
  }
  return out;
}

std::string line_path(const Series& series, const Scale& scale) {
  std::string out;
  double end = -1;
  for (const ChartStep& step : series.steps) {
    const double gap = (step.from_s - end) / scale.seconds;
    out += fmt::format("{}{:.1f} {:.1f}H{:.1f}", end < 0 || gap > 1e-6 ? "M" : "L", scale.x(step.from_s),
                       scale.y(step.value), scale.x(step.to_s));
    end = step.to_s;
  }
  return out;
}

// The same, closed along the bottom.
std::string area_path(const Series& series, const Scale& scale) {
  std::string out;
  const double bottom = scale.y(0);
  for (size_t i = 0; i < series.steps.size();) {
    out += fmt::format("M{:.1f} {:.1f}", scale.x(series.steps[i].from_s), bottom);
    for (double end = series.steps[i].from_s;
         i < series.steps.size() && (series.steps[i].from_s - end) / scale.seconds <= 1e-6; ++i) {
      out += fmt::format("V{:.1f}H{:.1f}", scale.y(series.steps[i].value), scale.x(series.steps[i].to_s));
      end = series.steps[i].to_s;
    }
    out += fmt::format("V{:.1f}Z", bottom);
  }
  return out;
}

}  // namespace

double nice_step(double top, int count) {
  if (!(top > 0) || !std::isfinite(top) || count < 1) return 1;
  const double rough = top / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= rough * 0.9999) return factor * power;
  return 10 * power;
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return "?";
  static constexpr std::array kUnits = {"", "\u00a0k", "\u00a0M", "\u00a0G", "\u00a0T", "\u00a0P", "\u00a0E"};
  size_t unit = 0;
  while (std::fabs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  if (value != 0 && std::fabs(value) < 0.001) return fmt::format("{:.1e}", value);
  return fmt::format("{:.3g}{}", value, kUnits[unit]);
}

std::string time_label(double seconds, double end) {
  if (end <= 120) return fmt::format("{:g} s", std::round(seconds * 1000) / 1000);
  if (end <= 7200) return fmt::format("{:g} min", std::round(seconds / 6) / 10);
  if (end <= 172800) return fmt::format("{:g} h", std::round(seconds / 360) / 10);
  return fmt::format("{:g} d", std::round(seconds / 8640) / 10);
}

std::string svg_of(const Chart& chart, double seconds, bool with_axis) {
  Scale scale;
  scale.seconds = seconds > 0 ? seconds : 1;
  const double top = greatest(chart);
  // A share never needs more than all.
  const bool share = chart.unit.starts_with('%') && top <= 100;
  scale.top = share && top > 50 ? 100 : top > 0 ? 2 * nice_step(top, 2) : 1;
  const double height = kTop + kHeight + (with_axis ? kAxis : 6);
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" "
      "font-size=\"12\"><title>{2} in {3}</title>",
      kWidth, height, html_text(chart.title), html_text(chart.unit));
  out += grid(scale, with_axis);
  for (size_t i = chart.series.size(); i-- > 0;) {
    const Series& series = chart.series[i];
    out += fmt::format("<g class=\"s{}\"><title>{}: peak {}, mean {} {}</title>", series.ink,
                       html_text(series.label), short_number(series.peak), short_number(series.mean),
                       html_text(chart.unit));
    if (chart.series.size() <= 3)
      out += fmt::format("<path class=\"area\" fill=\"none\" d=\"{}\"/>", area_path(series, scale));
    out += fmt::format("<path class=\"line\" fill=\"none\" stroke=\"currentColor\" d=\"{}\"/></g>",
                       line_path(series, scale));
  }
  return out + "</svg>";
}

}  // namespace mroce::doctor
