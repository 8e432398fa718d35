// A seeded generator (xoshiro256**, Blackman and Vigna 2018; seeded by SplitMix64). Every random choice of
// the core, the impairment layer and the tests comes from one of these, so that a run is replayed from its
// seed.
#pragma once

#include <array>
#include <cstdint>

namespace mroce {

class Rng {
 public:
  explicit Rng(uint64_t seed) {
    for (auto& word : state_) word = split_mix(seed);
  }

  uint64_t next() {
    const uint64_t result = rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound); 0 for bound 0. The bias of the modulo is below 2^-32 for bounds below 2^32.
  uint64_t below(uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  // Uniform in [low, high], both included.
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return uniform() < probability; }

 private:
  static constexpr uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  static uint64_t split_mix(uint64_t& x) {
    uint64_t z = (x += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  std::array<uint64_t, 4> state_{};
};

}  // namespace mroce
