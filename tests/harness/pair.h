// Pair: a World of two endpoints A and B with one connected pair of queue pairs and a memory region each.
#pragma once

#include "soak/world/world.h"

namespace mroce::test {

using namespace mroce::soak;

struct PairOptions {
  uint64_t seed = 1;
  uint32_t planes = 1;
  uint32_t paths = 4;
  size_t memory_bytes = 1 << 20;
  Faults faults;
  QpOptions qp;
  ConnectOptions connection;
  bool connect = true;
  std::function<void(EngineConfig&)> tweak;  // both endpoints
};

class Pair : public World {
 public:
  explicit Pair(PairOptions options = {})
      : World(options.seed),
        a(add_endpoint(endpoint_options("a", options))),
        b(add_endpoint(endpoint_options("b", options))),
        ma(a.make_mr(options.memory_bytes)),
        mb(b.make_mr(options.memory_bytes)),
        qa(a.make_qp(options.qp)),
        qb(b.make_qp(options.qp)) {
    network().faults() = options.faults;
    if (options.connect) soak::connect(qa, qb, options.connection);
  }

  // Memory of A and B from an offset into their regions.
  std::span<std::byte> bytes_a(size_t offset, size_t length) {
    return a.memory().bytes(ma.addr + offset, length);
  }
  std::span<std::byte> bytes_b(size_t offset, size_t length) {
    return b.memory().bytes(mb.addr + offset, length);
  }
  // Fills with bytes that depend on their place and on `salt`.
  static void fill(std::span<std::byte> bytes, uint64_t salt) {
    Rng rng(salt);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
  }

  Endpoint& a;
  Endpoint& b;
  Mr ma, mb;
  Qp qa, qb;

 private:
  static EndpointOptions endpoint_options(const char* name, const PairOptions& options) {
    EndpointOptions result;
    result.name = name;
    result.planes = options.planes;
    result.tweak = [paths = options.paths, tweak = options.tweak](EngineConfig& config) {
      config.max_paths = paths;
      if (tweak) tweak(config);
    };
    return result;
  }
};

}  // namespace mroce::test
