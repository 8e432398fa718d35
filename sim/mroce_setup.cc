#include "sim/mroce_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/assert.h"
#include "core/wire/packet.h"

namespace mroce::sim {
namespace {

constexpr int kMaxRounds = 4000;
constexpr Nanos kQuiet = millis(5);  // what is due later than this is keepalive

struct Datagram {
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t port = 0;
  size_t length = 0;             // as it was
  std::vector<std::byte> bytes;  // without the zeros at its end: INITs and challenges are padded
};

// How much of the first `length` bytes is left without the zeros at their end. Words first: a challenge is a
// full packet of zeros, and there is one for each path of each connection.
size_t without_zeros(const std::vector<std::byte>& bytes, size_t length) {
  uint64_t word = 0;
  while (length >= sizeof word) {
    std::memcpy(&word, bytes.data() + length - sizeof word, sizeof word);
    if (word != 0) break;
    length -= sizeof word;
  }
  while (length > 0 && bytes[length - 1] == std::byte{0}) --length;
  return length;
}

// One step of half a round trip: everything sent in the last one arrives, timers fire, answers leave.
class IdealNetwork {
 public:
  IdealNetwork(std::span<MroceTransport* const> transports, std::span<const uint32_t> hosts)
      : transports_(transports), hosts_(hosts) {}

  void step(Time now) {
    std::vector<Datagram> arriving;
    arriving.swap(flying_);
    for (const Datagram& each : arriving) {
      RxMeta meta;
      meta.port = each.port;
      meta.from = {MroceTransport::address_of(each.from, each.port), 61440};
      if (padded_.size() < each.length) padded_.resize(each.length);
      std::copy(each.bytes.begin(), each.bytes.end(), padded_.begin());
      const auto datagram = std::span(padded_).first(each.length);
      transports_[each.to]->engine().on_burst(now, meta, datagram, static_cast<uint32_t>(each.length));
      std::fill_n(padded_.begin(), each.bytes.size(), std::byte{0});
    }
    for (const uint32_t host : hosts_) {
      Engine& engine = transports_[host]->engine();
      if (engine.next_deadline() <= now) engine.on_timeout(now);
      send_all(now, host, engine);
    }
  }

  bool quiet(Time now) const {
    return flying_.empty() && std::all_of(hosts_.begin(), hosts_.end(), [&](uint32_t host) {
             return transports_[host]->engine().next_deadline() > now + kQuiet;
           });
  }

 private:
  void send_all(Time now, uint32_t host, Engine& engine) {
    TxBurst burst;
    while (engine.poll_transmit(now, burst)) {
      Datagram out{host, MroceTransport::host_of(burst.to.ip), burst.port, burst.total_bytes, {}};
      for (const Slice& slice : burst.slices) {
        if (slice.data != nullptr) out.bytes.insert(out.bytes.end(), slice.data, slice.data + slice.length);
      }
      // The CRC is not looked at, and step() puts zeros at the end back.
      const size_t kept =
          without_zeros(out.bytes, out.bytes.size() - std::min(out.bytes.size(), wire::kTrailerBytes));
      out.bytes.erase(out.bytes.begin() + static_cast<ptrdiff_t>(kept), out.bytes.end());
      out.bytes.shrink_to_fit();
      flying_.push_back(std::move(out));
    }
  }

  std::span<MroceTransport* const> transports_;
  std::span<const uint32_t> hosts_;
  std::vector<Datagram> flying_;
  std::vector<std::byte> padded_;  // zeros between two datagrams
};

}  // namespace

std::string open_connections(std::span<MroceTransport* const> transports, std::span<const Flow> flows,
                             SimTime base_rtt) {
  const Nanos half = std::max(Nanos{1}, Nanos{base_rtt / 2 / kPicosInNano});
  Time now = time_from_ns(1);
  std::vector<uint32_t> hosts;
  for (uint32_t i = 0; i < flows.size(); ++i) {
    const Flow& flow = flows[i];
    MroceTransport& from = *transports[flow.source];
    MroceTransport& to = *transports[flow.destination];
    const auto sender = from.make_queue_pair(i);
    const auto receiver = to.make_queue_pair(i);
    if (!sender || !receiver) {
      return fmt::format("host {} cannot have more queue pairs for flow {}: a host has at most 65519",
                         sender ? flow.destination : flow.source, flow.id);
    }
    from.connect(now, *sender, flow.destination, receiver->number);
    to.connect(now, *receiver, flow.source, sender->number);
    from.send_from(i, *sender, to.rkey());
    from.open_stream(now, *sender);
    to.expect(i, flow.bytes);
    hosts.push_back(flow.source);
    hosts.push_back(flow.destination);
  }
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());

  IdealNetwork network(transports, hosts);
  int rounds = 0;
  do {
    network.step(now);
    now += half;
  } while (!network.quiet(now) && ++rounds < kMaxRounds);
  if (rounds == kMaxRounds) return "the connections of the flows do not settle; this is a bug of mroce";
  for (MroceTransport* transport : transports) transport->begin(now);
  return {};
}

}  // namespace mroce::sim
