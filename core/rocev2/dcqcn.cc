#include "core/rocev2/dcqcn.h"

#include <algorithm>
#include <cmath>

#include "core/base/assert.h"

namespace mroce::rocev2 {
namespace {

constexpr double kScaleLine = 25e9;

}  // namespace

Dcqcn::Dcqcn(const DcqcnConfig& config, double line_rate_bps, Time now)
    : config_(&config), line_(line_rate_bps), rate_(line_rate_bps), target_(line_rate_bps) {
  MROCE_ASSERT(line_rate_bps > 0);
  const double scale = config.scale_with_line ? line_ / kScaleLine : 1.0;
  ai_ = config.ai_bps * scale;
  hai_ = config.hai_bps * scale;
  if (config.enabled && config.initial_rate_bps > 0) rate_ = std::min(line_, config.initial_rate_bps);
  if (rate_ < line_) {
    increase_at_ = now + config.time_reset;
    bytes_left_ = config.byte_reset;
  }
  alpha_ = config.initial_alpha;
  alpha_fixed_ = std::min(kFixedMax, static_cast<uint32_t>(config.initial_alpha * kFixedOne));
}

double Dcqcn::alpha(Time now) {
  catch_up_alpha(now);
  return config_->flavour == DcqcnConfig::Flavour::kMlx ? alpha_fixed_ / kFixedOne : alpha_;
}

// Performs the updates whose time has come: the first of them sees the CNP, the others decay only.
void Dcqcn::catch_up_alpha(Time now) {
  if (alpha_next_ > now) return;  // also when it has not begun
  const auto period = config_->alpha_period;
  const auto updates = static_cast<uint64_t>((now - alpha_next_) / period) + 1;
  alpha_next_ += period * static_cast<int64_t>(updates);
  step_alpha(updates);
  cnp_for_alpha_ = false;
}

void Dcqcn::step_alpha(uint64_t updates) {
  if (config_->flavour == DcqcnConfig::Flavour::kMlx) {
    uint32_t add = cnp_for_alpha_ ? 1024 - config_->alpha_keep : 0;
    for (uint64_t i = 0; i < updates && (alpha_fixed_ != 0 || add != 0); ++i) {
      alpha_fixed_ = std::min(kFixedMax, alpha_fixed_ * config_->alpha_keep / 1024 + add);
      add = 0;
    }
    return;
  }
  const double keep = 1 - config_->g;
  alpha_ = alpha_ * keep + (cnp_for_alpha_ ? config_->g : 0);
  if (updates > 1) alpha_ *= std::pow(keep, static_cast<double>(updates - 1));
}

void Dcqcn::on_cnp(Time now) {
  if (!config_->enabled) return;
  catch_up_alpha(now);
  const bool first = !started_;
  if (first) {
    started_ = true;
    rate_ = std::max(std::min(config_->min_rate_bps, rate_), rate_ * config_->first_cnp_factor);
    target_ = rate_;
    alpha_next_ = now + config_->alpha_period;
    period_start_ = now;
  }
  if (config_->flavour == DcqcnConfig::Flavour::kMlx) {
    cnp_for_alpha_ = true;
    if (decrease_at_ != kNever) return;
    if (first || now - period_start_ >= config_->decrease_period) {
      cut(now);
    } else {
      decrease_at_ = period_start_ + config_->decrease_period;
    }
    return;
  }
  // The first CNP starts the clocks with alpha as configured; it counts for the cut and not for alpha.
  cnp_for_alpha_ = cnp_for_alpha_ || !first;
  if (decrease_at_ != kNever) return;
  const auto period = config_->decrease_period;
  decrease_at_ = period_start_ + period * ((now - period_start_) / period + 1);
}

void Dcqcn::cut(Time now) {
  catch_up_alpha(now);
  const bool clamp = config_->clamp_target || (config_->clamp_target_after_time_inc && time_stage_ != 0);
  if (clamp) target_ = rate_;
  const double floor = std::min(config_->min_rate_bps, line_);
  double factor = 1 - alpha(now) / 2;
  if (config_->flavour == DcqcnConfig::Flavour::kMlx) factor = std::max(factor, config_->min_dec_fac);
  rate_ = std::max(floor, rate_ * factor);
  target_ = std::max(target_, rate_);
  time_stage_ = byte_stage_ = 0;
  bytes_left_ = config_->byte_reset;
  increase_at_ = now + config_->time_reset;
  decrease_at_ = kNever;
  period_start_ = config_->flavour == DcqcnConfig::Flavour::kMlx ? now : period_start_;
}

void Dcqcn::increase() {
  const bool bytes = config_->byte_reset != 0;
  const uint32_t low = bytes ? std::min(time_stage_, byte_stage_) : time_stage_;
  const uint32_t high = bytes ? std::max(time_stage_, byte_stage_) : time_stage_;
  if (high >= config_->threshold) target_ += low > config_->threshold ? hai_ : ai_;
  target_ = std::min(target_, line_);
  rate_ = (rate_ + target_) / 2;
  constexpr double kAtLine = 1 - 1e-6;  // halving the distance never ends by itself
  if (rate_ >= line_ * kAtLine) rate_ = line_;
}

void Dcqcn::on_timer(Time now) {
  if (decrease_at_ <= now) cut(now);
  if (increase_at_ > now) return;
  increase();
  ++time_stage_;
  increase_at_ = rate_ < line_ ? now + config_->time_reset : kNever;
}

void Dcqcn::count_bytes(uint32_t bytes) {
  if (bytes < bytes_left_) {
    bytes_left_ -= bytes;
    return;
  }
  increase();
  ++byte_stage_;
  bytes_left_ = rate_ < line_ ? config_->byte_reset : 0;
}

}  // namespace mroce::rocev2
