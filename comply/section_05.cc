// §5.2 to §5.6: what a receiver does with packets, and what its acknowledgements say.
#include "comply/section.h"

namespace mroce::comply {

void add_receiving(std::vector<Assertion>& out) {
  out.push_back(
      {"5.3/duplicate-cpsn-placed-once", "§5.3", Level::kMust, "It MUST NOT be placed.", {}, [](Tester& t) {
         Bench b(t);
         const Sent sent = b.stream.send_and_wait(b.stream.write(b.region, 0, pattern(100)));
         Tester::check(b.memory(0, 100) == pattern(100), "the WRITE was not placed");
         b.write_memory(0, Bytes(100));
         const Sent again = b.connection.send_again(sent, {.flags = wire::flag::kAckRequest});
         t.expect(
             [&](const Packet& p) {
               const auto* block = p.block(0);
               return block != nullptr && says_received(*block, again.pseq);
             },
             "the acknowledgement of the duplicate");
         Tester::check(b.memory(0, 100) == Bytes(100), "the duplicate was placed");
       }});
}

}  // namespace mroce::comply
