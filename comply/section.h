// What the files of assertions share: names, and the checks that many of them make.
#pragma once

#include <fmt/format.h>

#include "comply/stream.h"
#include "comply/suite.h"

namespace mroce::comply {

using wire::DataOp;
using wire::NakCode;
using wire::Type;

inline constexpr uint8_t kAr = wire::flag::kAckRequest;

inline void check(bool holds, const std::string& what) {
  Tester::check(holds, what);
}

// INIT_ACK to the INIT of `connection`.
inline Match answer_to(const Connection& connection) {
  return [&connection](const Packet& p) { return p.is(Type::kInitAck) && connection.mine(p); };
}

// The target still serves the connection: a WRITE is placed and acknowledged.

inline void expect_alive(Bench& b, uint32_t offset = 64 << 10) {
  b.stream.send_and_wait(b.stream.write(b.region, offset, pattern(77, 99)));
  check(b.memory(offset, 77) == pattern(77, 99), "a WRITE afterwards was not placed");
}

// Waits for an ACK with news of a path that has come to `pseq`, and answers the block.
inline wire::PathBlock expect_block(Bench& b, uint8_t path, uint32_t pseq) {
  const Packet& ack = b.tester.expect(
      [&](const Packet& p) {
        const auto* block = p.block(path);
        return b.connection.mine(p) && block != nullptr && static_cast<int32_t>(block->largest - pseq) >= 0;
      },
      "an ACK with a block of the path");
  return *ack.block(path);
}

// Sends what the target must drop in silence: no word for it, and it still serves.
inline void expect_dropped(Bench& b, const std::function<void()>& send) {
  b.tester.run_for(millis(5));  // what is owed for earlier packets
  b.tester.forget();
  send();
  b.tester.expect_none([&](const Packet&) { return true; }, "an answer");
  expect_alive(b);
}

}  // namespace mroce::comply
