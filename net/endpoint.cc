#include "net/endpoint.h"

#include <time.h>
#include <unistd.h>

#include <utility>

#include "core/base/assert.h"
#include "net/endpoint_impl.h"
#include "net/engine_config.h"

namespace mroce::net {
namespace {

using Failure = tl::unexpected<std::string>;

int64_t unix_offset_ns(Time now) {
  timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  return int64_t{wall.tv_sec} * 1'000'000'000 + wall.tv_nsec - ns_of(now);
}

tl::expected<std::optional<Wire::Trace>, std::string> open_trace(const Settings& settings, Time now,
                                                                 const std::vector<LocalAddress>& addresses,
                                                                 uint16_t port) {
  const std::string& path = settings.text("trace");
  if (path.empty()) return std::optional<Wire::Trace>{};
  auto writer = PcapngWriter::open(with_process_id(path));
  if (!writer) return Failure(writer.error());
  Wire::Trace trace{std::move(*writer), unix_offset_ns(now), {}};
  for (const LocalAddress& address : addresses) trace.listening.push_back({address.gid, port});
  return std::optional<Wire::Trace>(std::move(trace));
}

}  // namespace

std::string with_process_id(const std::string& path) {
  std::string result = path;
  const std::string id = std::to_string(getpid());
  for (size_t at = result.find("%p"); at != std::string::npos; at = result.find("%p", at + id.size())) {
    result.replace(at, 2, id);
  }
  return result;
}

Endpoint::Impl::Impl(const Settings& settings_in, EventSink& sink_in, std::mutex& mutex_in)
    : settings(settings_in),
      sink(sink_in),
      mutex(mutex_in),
      log(log_level_of(settings_in.text("log"))),
      helper(*this) {}

Endpoint::Endpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Endpoint::~Endpoint() {
  if (impl_ == nullptr) return;
  close();
  // A forked child may have been made in the midst of a change: nothing in there can be trusted, not even to
  // be freed.
  if (impl_->abandoned) static_cast<void>(impl_.release());
}

Time Endpoint::clock_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return time_from_ns(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

tl::expected<std::unique_ptr<Endpoint>, std::string> Endpoint::open(const Settings& settings,
                                                                    EventSink& sink) {
  if (auto valid = settings.validate(); !valid) return Failure(valid.error());
  std::unique_ptr<Endpoint> endpoint(new Endpoint(nullptr));
  auto impl = std::make_unique<Impl>(settings, sink, endpoint->mutex_);
  for (const std::string& sentence : settings.unknown()) impl->log(LogLevel::kWarn, "{}", sentence);
  impl->opened = clock_now();
  impl->seed = choose_seed(settings);

  auto key = impl->read_key();
  if (!key) return Failure(key.error());
  if (auto opened = impl->open_receivers(); !opened) return Failure(opened.error());
  if (auto opened = impl->open_wire(); !opened) return Failure(opened.error());
  EngineSurroundings surroundings;
  surroundings.addresses = impl->addresses;
  surroundings.slot = impl->receivers->slot();
  surroundings.receive_buffer_bytes = impl->receivers->granted_bytes();
  surroundings.seed = impl->seed;
  surroundings.endpoint_id = random_endpoint_id();
  surroundings.preshared_key = *key;
  impl->engine = std::make_unique<Engine>(engine_config(settings, surroundings), impl->memory);

  std::vector<int> sockets;
  for (size_t i = 0; i < impl->receivers->count(); ++i) sockets.push_back(impl->receivers->fd(i));
  endpoint->impl_ = std::move(impl);
  auto started = endpoint->impl_->helper.start(sockets, endpoint->impl_->links.fd());
  if (!started) {
    endpoint->gone_.store(true);  // nobody knows us yet: go without a word
    return Failure(started.error());
  }
  endpoint->write_stats_now_and_then();
  return endpoint;
}

void Endpoint::write_stats_now_and_then() {
  const auto interval = static_cast<int64_t>(impl_->settings.number("stats_interval"));
  if (interval == 0 || impl_->settings.text("stats_file").empty()) return;
  const bool started =
      impl_->stats_writer.start(millis(interval), [this] { impl_->write_stats_file(stats_json()); });
  if (!started)
    impl_->log(LogLevel::kWarn, "no thread for stats_interval: statistics are written at exit only");
}

tl::expected<std::optional<PresharedKeyBytes>, std::string> Endpoint::Impl::read_key() const {
  const std::string& path = settings.text("key_file");
  const std::string& security = settings.text("security");
  std::optional<PresharedKeyBytes> key;
  if (path.empty()) {
    if (security == "require") {
      log(LogLevel::kWarn, "security={} without key_file: data is encrypted, but peers are not authenticated",
          security);
    }
    return key;
  }
  if (security == "off") {
    log(LogLevel::kWarn, "key_file is not used: security is off; set it to require");
    return key;
  }
  const auto read = read_key_file(path);
  if (!read) return Failure(read.error());
  key = *read;
  return key;
}

tl::expected<void, std::string> Endpoint::Impl::open_receivers() {
  auto watch = LinkWatch::open();
  if (!watch) return Failure(watch.error());
  links = std::move(*watch);
  auto found = find_local_addresses(settings.text("addresses"));
  if (!found) return Failure(found.error());
  addresses = std::move(*found);
  links.follow(addresses);
  for (const LocalAddress& address : addresses)
    gids.push_back({address.gid, address.interface, address.ifindex});

  const auto base_port = static_cast<uint16_t>(settings.number("base_port"));
  auto opened_sockets = ReceiveSockets::open(addresses, base_port, settings.number("receive_buffer"));
  if (!opened_sockets) return Failure(opened_sockets.error());
  receivers.emplace(std::move(*opened_sockets));
  if (!receivers->hint().empty()) log(LogLevel::kInfo, "{}", receivers->hint());
  return {};
}

tl::expected<void, std::string> Endpoint::Impl::open_wire() {
  const auto port = static_cast<uint16_t>(settings.number("base_port") + receivers->slot());
  auto trace = open_trace(settings, opened, addresses, port);
  if (!trace) return Failure(trace.error());
  auto clauses = parse_clauses(settings.text("impair"));
  if (!clauses) return Failure(clauses.error());
  Impairment impairment(std::move(*clauses), seed, opened);
  if (impairment.impairs_out() || impairment.impairs_in()) {
    log(LogLevel::kInfo, "impairing with seed {}: {}", impairment.seed(), settings.text("impair"));
  }
  wire.emplace(SendSockets(addresses), std::move(impairment), std::move(*trace), *this);
  return {};
}

const std::vector<GidEntry>& Endpoint::gids() const {
  return impl_->gids;
}

uint8_t Endpoint::slot() const {
  return impl_->receivers->slot();
}

Engine& Endpoint::engine() const {
  return *impl_->engine;
}

}  // namespace mroce::net
