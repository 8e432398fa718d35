// Typed handles of the objects that an Engine owns. A handle is never reused while the engine lives (the
// upper half is a generation), so that a stale one is an error and not somebody else's object. 0 is "none".
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace mroce {

template <class Tag>
struct Handle {
  uint64_t value = 0;
  auto operator<=>(const Handle&) const = default;
  explicit operator bool() const { return value != 0; }
};

using PdHandle = Handle<struct PdTag>;
using CqHandle = Handle<struct CqTag>;
using QpHandle = Handle<struct QpTag>;
using SrqHandle = Handle<struct SrqTag>;

}  // namespace mroce
