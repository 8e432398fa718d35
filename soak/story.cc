#include "soak/story.h"

#include <fmt/format.h>

namespace mroce::soak {

std::string_view Story::legend() {
  return R"(legend: simulated time, kind of event, what happened; endpoints are a, b, c, ...
  +  a work request is posted          =  a work request completed     r  a receive completed
  !  a completion with an error        q  queue pairs come and go      *  an endpoint dies or starts
  ~  a fault begins, or faults end     ?  a violation                  .  a datagram (--packets)
)";
}

void Story::begin(World& world) {
  world_ = &world;
  if (!packets_) return;
  world.network().on_fate([this, &world](const PacketView& packet, const char* fate) {
    line('.',
         fmt::format("{} > {}  {}{}{}", world.endpoint(packet.from).name(), world.endpoint(packet.to).name(),
                     describe(packet), fate[0] == 0 ? "" : "  -- ", fate));
  });
}

void Story::line(char mark, std::string_view text) {
  const int64_t ns = world_ == nullptr ? 0 : ns_of(world_->now());
  sink_(fmt::format("{:14.6f} ms  {}  {}\n", static_cast<double>(ns) / 1e6, mark, text));
}

void Story::completion(const Endpoint& endpoint, const Wc& wc) {
  const bool receives = (static_cast<int>(wc.opcode) & 128) != 0;
  const bool good = wc.status == WcStatus::kSuccess;
  line(!good      ? '!'
       : receives ? 'r'
                  : '=',
       fmt::format("{} queue pair {:#x}: id {}, {} bytes, status {}{}", endpoint.name(), wc.qp_num, wc.wr_id,
                   wc.byte_len, static_cast<int>(wc.status), receives ? ", a receive" : ""));
}

}  // namespace mroce::soak
