// EngineHost: where the engine of a control session runs: behind UDP sockets, or in virtual time for those
// who test the session itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "core/mroce/engine.h"
#include "net/settings.h"

namespace mroce::comply {

class EngineHost {
 public:
  virtual ~EngineHost() = default;
  virtual uint8_t slot() const = 0;

  // Runs `f(Engine&, Time now)` alone with the engine, then does what it left to do.
  template <class F>
  auto command(F&& f) {
    std::optional<decltype(f(std::declval<Engine&>(), Time{}))> answer;
    run([&](Engine& engine, Time now) { answer.emplace(f(engine, now)); });
    return *answer;
  }

 private:
  // Runs it exactly once.
  virtual void run(const std::function<void(Engine&, Time)>& use) = 0;
};

using OpenHost =
    std::function<tl::expected<std::unique_ptr<EngineHost>, std::string>(const net::Settings& settings)>;

// A net::Endpoint. Errors are sentences.
tl::expected<std::unique_ptr<EngineHost>, std::string> open_udp_host(const net::Settings& settings);

}  // namespace mroce::comply
