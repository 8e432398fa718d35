#include "net/impairment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

namespace mroce::net {
namespace {

constexpr Time kOpened = time_from_ns(1'000'000'000);

Impairment make(const std::string& text, uint64_t seed = 1) {
  auto clauses = parse_clauses(text);
  EXPECT_TRUE(clauses.has_value()) << clauses.error();
  return Impairment(std::move(*clauses), seed, kOpened);
}

// Collects what comes out. Each datagram begins with 2 bytes, its path, and a 32-bit number.
class Sink : public ImpairmentSink {
 public:
  struct Datagram {
    std::vector<std::byte> bytes;
    Ecn ecn;
    uint32_t number() const {
      uint32_t value = 0;
      std::memcpy(&value, bytes.data() + 4, 4);
      return value;
    }
  };

  void pass_out(const TxBurst& burst) override {
    ++bursts;
    std::vector<std::byte> flat;
    for (const Slice& slice : burst.slices) flat.insert(flat.end(), slice.data, slice.data + slice.length);
    ASSERT_EQ(flat.size(), burst.total_bytes);
    ASSERT_GE(burst.segments, 1u);
    split(flat, burst.segment_bytes, burst.ecn, burst.segments);
  }
  void pass_in(const RxMeta& meta, std::span<const std::byte> bytes, uint32_t segment_bytes) override {
    ++bursts;
    split(bytes, segment_bytes, meta.ecn,
          static_cast<uint32_t>((bytes.size() + segment_bytes - 1) / segment_bytes));
  }
  bool traces() const override { return true; }
  void dropped_out(const TxBurst& datagram, uint32_t behind) override {
    EXPECT_EQ(datagram.segments, 1u);
    EXPECT_LE(behind, kMaxSegments);
    ++drops;
  }
  void dropped_in(const RxMeta&, std::span<const std::byte>) override { ++drops; }

  std::vector<uint32_t> numbers() const {
    std::vector<uint32_t> result;
    for (const Datagram& datagram : passed) result.push_back(datagram.number());
    return result;
  }

  std::vector<Datagram> passed;
  uint64_t bursts = 0;
  uint64_t drops = 0;

 private:
  void split(std::span<const std::byte> bytes, uint32_t segment_bytes, Ecn ecn, uint32_t segments) {
    uint32_t count = 0;
    for (size_t at = 0; at < bytes.size(); at += segment_bytes, ++count) {
      const auto part = bytes.subspan(at, std::min<size_t>(segment_bytes, bytes.size() - at));
      passed.push_back({{part.begin(), part.end()}, ecn});
    }
    EXPECT_EQ(count, segments);
  }
};

// Feeds numbered bursts in either direction.
class Source {
 public:
  Source(Impairment& impairment, bool outgoing) : impairment_(impairment), outgoing_(outgoing) {}

  void burst(Time now, uint32_t segments, Sink& sink, uint8_t path = 0, uint32_t bytes = 100,
             uint32_t plane = 0) {
    std::vector<std::byte> data(size_t{bytes} * segments - 10);  // the last segment is shorter
    for (uint32_t i = 0; i < segments; ++i) {
      data[size_t{i} * bytes + 2] = static_cast<std::byte>(path);
      std::memcpy(data.data() + size_t{i} * bytes + 4, &next_, 4);
      ++next_;
    }
    if (outgoing_) {
      const Slice slices[] = {{data.data(), 37}, {data.data() + 37, data.size() - 37}};
      TxBurst burst;
      burst.path = path;
      burst.port = plane;
      burst.ecn = Ecn::kEct0;
      burst.segments = segments;
      burst.segment_bytes = bytes;
      burst.total_bytes = static_cast<uint32_t>(data.size());
      burst.slices = slices;
      impairment_.transmit(now, burst, sink);
    } else {
      RxMeta meta;
      meta.port = plane;
      meta.ecn = Ecn::kEct0;
      impairment_.receive(now, meta, data, bytes, sink);
    }
  }
  uint32_t sent() const { return next_; }

 private:
  Impairment& impairment_;
  bool outgoing_;
  uint32_t next_ = 0;
};

void expect_balanced_books(const Impairment& impairment, const Sink& sink, bool outgoing, uint64_t sent) {
  const ImpairmentCounters& c = impairment.counters(outgoing);
  EXPECT_EQ(c.offered, sent);
  EXPECT_EQ(c.delivered, sink.passed.size());
  if (impairment.next_deadline() == kNever) {
    EXPECT_EQ(c.dropped(), sink.drops);
  } else {  // the sink hears of some when those before them have left
    EXPECT_GE(c.dropped(), sink.drops);
  }
  EXPECT_EQ(c.offered + c.duplicated, c.delivered + c.dropped() + impairment.queued(outgoing));
}

// A count of `n` draws with probability `p` lies within three standard deviations.
void expect_share(uint64_t count, uint64_t n, double p) {
  const double mean = static_cast<double>(n) * p;
  const double sigma = std::sqrt(mean * (1 - p));
  EXPECT_NEAR(static_cast<double>(count), mean, 3 * sigma);
}

class BothWays : public ::testing::TestWithParam<bool> {
 protected:
  bool outgoing() const { return GetParam(); }
  std::string direction() const { return outgoing() ? ",dir=out" : ",dir=in"; }
};

TEST_P(BothWays, rates_of_every_effect_are_as_asked_and_no_packet_vanishes) {
  Impairment impairment =
      make("loss=3%,duplicate=2%,corrupt=1%,reorder=4%:200us,ce=5%,delay=50us:10us" + direction(), 7);
  Source source(impairment, outgoing());
  Sink sink;
  Time now = kOpened;
  for (int i = 0; i < 10000; ++i) {
    source.burst(now, 1 + static_cast<uint32_t>(i % 15), sink, static_cast<uint8_t>(i % 4));
    now += micros(20);
    impairment.release(now, sink);
    expect_balanced_books(impairment, sink, outgoing(), source.sent());
  }
  EXPECT_GT(impairment.queued(outgoing()), 0u);
  impairment.release(now + seconds(1), sink);
  EXPECT_EQ(impairment.queued(outgoing()), 0u);
  expect_balanced_books(impairment, sink, outgoing(), source.sent());
  const ImpairmentCounters& c = impairment.counters(outgoing());
  const uint64_t judged = c.offered - c.dropped();
  expect_share(c.dropped_loss, c.offered, 0.03);
  expect_share(c.duplicated, judged, 0.02);
  expect_share(c.corrupted, judged, 0.01);
  expect_share(c.reordered, judged, 0.04);
  expect_share(c.marked, judged, 0.05);
  EXPECT_EQ(c.delayed, judged);
  EXPECT_EQ(impairment.counters(!outgoing()).offered, 0u);
}

TEST_P(BothWays, losses_in_a_row_have_the_mean_length_that_was_asked_for) {
  Impairment impairment = make("burst=0.5%:8" + direction(), 3);
  Source source(impairment, outgoing());
  Sink sink;
  for (int i = 0; i < 40000; ++i) source.burst(kOpened, 10, sink);
  uint64_t runs = 0;
  uint64_t lost = 0;
  uint32_t expected = 0;
  for (const uint32_t number : sink.numbers()) {
    if (number != expected) {
      ++runs;
      lost += number - expected;
    }
    expected = number + 1;
  }
  // Geometric lengths: standard deviation about as large as the mean. Two bad states may follow one another
  // directly (probability 0.5%), which makes one longer run of them.
  const double mean = static_cast<double>(lost) / static_cast<double>(runs);
  EXPECT_NEAR(mean, 8 * 1.005, 3 * 8 / std::sqrt(static_cast<double>(runs)));
  const double share = static_cast<double>(lost) / source.sent();
  EXPECT_NEAR(share, 8 / (8 + 1 / 0.005), 0.004);
  EXPECT_EQ(impairment.counters(outgoing()).dropped_burst, source.sent() - sink.passed.size());
}

TEST_P(BothWays, equal_seeds_replay_byte_for_byte_and_other_seeds_do_not) {
  const auto run = [&](uint64_t seed) {
    Impairment impairment =
        make("loss=5%,burst=1%:3,duplicate=5%,corrupt=5%,reorder=5%:100us,ce=5%,delay=20us:10us,rate=10G" +
                 direction(),
             seed);
    Source source(impairment, outgoing());
    Sink sink;
    Time now = kOpened;
    for (int i = 0; i < 2000; ++i) {
      source.burst(now, 7, sink, static_cast<uint8_t>(i % 3), 200);
      now += micros(5);
      impairment.release(now, sink);
    }
    impairment.release(now + seconds(1), sink);
    std::vector<std::byte> all;
    for (const auto& datagram : sink.passed) {
      all.push_back(static_cast<std::byte>(datagram.ecn));
      all.insert(all.end(), datagram.bytes.begin(), datagram.bytes.end());
    }
    return all;
  };
  const auto first = run(11);
  EXPECT_EQ(first, run(11));
  EXPECT_NE(first, run(12));
}

TEST_P(BothWays, a_dead_path_is_dead_in_its_windows_and_no_other_path_is) {
  Impairment impairment = make("down=1s-3s,down=5s-6s,path=1" + direction());
  Source source(impairment, outgoing());
  for (const auto& [age_ms, dead] : std::map<int64_t, bool>{{0, false},
                                                            {999, false},
                                                            {1000, true},
                                                            {2999, true},
                                                            {3000, false},
                                                            {5500, true},
                                                            {6000, false}}) {
    Sink sink;
    source.burst(kOpened + millis(age_ms), 5, sink, 1);
    EXPECT_EQ(sink.passed.size(), dead ? 0u : 5u) << age_ms;
    source.burst(kOpened + millis(age_ms), 5, sink, 2);
    EXPECT_EQ(sink.passed.size(), dead ? 5u : 10u) << age_ms;
  }
  EXPECT_EQ(impairment.counters(outgoing()).dropped_down, 15u);
  EXPECT_EQ(impairment.paths(outgoing())[1].offered, 35u);
  EXPECT_EQ(impairment.paths(outgoing())[1].dropped, 15u);
  EXPECT_EQ(impairment.paths(outgoing())[2].dropped, 0u);
}

TEST_P(BothWays, a_clause_can_be_limited_to_a_plane_and_a_time) {
  Impairment impairment = make("loss=100%,plane=2,during=1s-2s" + direction());
  Source source(impairment, outgoing());
  Sink sink;
  source.burst(kOpened, 1, sink, 0, 100, 2);
  source.burst(kOpened + millis(1500), 1, sink, 0, 100, 2);  // the one
  source.burst(kOpened + millis(1500), 1, sink, 0, 100, 1);
  source.burst(kOpened + seconds(2), 1, sink, 0, 100, 2);
  EXPECT_EQ(sink.numbers(), (std::vector<uint32_t>{0, 2, 3}));
}

TEST_P(BothWays, delay_keeps_the_order_of_a_path_and_reorder_does_not) {
  for (const bool reorder : {false, true}) {
    Impairment impairment =
        make((reorder ? "delay=100us:90us,reorder=10%:1ms" : "delay=100us:90us") + direction());
    Source source(impairment, outgoing());
    Sink sink;
    Time now = kOpened;
    for (int i = 0; i < 500; ++i) {
      source.burst(now, 3, sink);
      now += micros(10);
      impairment.release(now, sink);
    }
    impairment.release(now + seconds(1), sink);
    const auto numbers = sink.numbers();
    EXPECT_EQ(numbers.size(), 1500u);
    EXPECT_EQ(std::is_sorted(numbers.begin(), numbers.end()), !reorder);
  }
}

TEST_P(BothWays, doubled_and_corrupted_datagrams_keep_their_places_in_a_burst) {
  Impairment impairment = make("loss=10%,duplicate=20%,corrupt=20%,ce=20%" + direction());
  Source source(impairment, outgoing());
  Sink sink;
  for (int i = 0; i < 20; ++i) source.burst(kOpened, 15, sink, 0, 1400);
  const auto numbers = sink.numbers();
  EXPECT_EQ(numbers.size(), 300 - sink.drops + impairment.counters(outgoing()).duplicated);
  EXPECT_GT(impairment.counters(outgoing()).duplicated, 30u);
  EXPECT_GT(impairment.counters(outgoing()).corrupted, 30u);
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST_P(BothWays, what_is_due_leaves_before_what_comes_later_even_if_nobody_released_it) {
  Impairment impairment = make("delay=1ms,during=0s-1s" + direction());
  Source source(impairment, outgoing());
  Sink sink;
  source.burst(kOpened + millis(999), 3, sink);
  EXPECT_TRUE(sink.passed.empty());
  source.burst(kOpened + millis(1002), 3, sink);  // the window is over: no delay
  EXPECT_EQ(sink.numbers(), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
}

TEST_P(BothWays, a_delayed_datagram_waits_exactly_its_time) {
  Impairment impairment = make("delay=100us" + direction());
  Source source(impairment, outgoing());
  Sink sink;
  source.burst(kOpened, 1, sink);
  EXPECT_EQ(impairment.next_deadline(), kOpened + micros(100));
  impairment.release(kOpened + micros(100) - Nanos{1}, sink);
  EXPECT_TRUE(sink.passed.empty());
  impairment.release(kOpened + micros(100), sink);
  EXPECT_EQ(sink.passed.size(), 1u);
  EXPECT_EQ(impairment.next_deadline(), kNever);
}

TEST_P(BothWays, a_rate_serialises_and_a_full_queue_drops_the_tail) {
  Impairment impairment = make("rate=8M,queue=10K" + direction());  // 1 byte a microsecond
  Source source(impairment, outgoing());
  Sink sink;
  for (int i = 0; i < 20; ++i) source.burst(kOpened, 1, sink, 0, 1010);  // 1000 bytes and headers each
  const ImpairmentCounters& c = impairment.counters(outgoing());
  const uint64_t header = outgoing() ? 48 : 48;  // the default addresses are IPv6
  const uint64_t fit = 10240 / (1000 + header);
  EXPECT_EQ(c.dropped_queue, 20 - fit);
  impairment.release(kOpened + micros(static_cast<int64_t>(1000 + header)), sink);
  EXPECT_EQ(sink.passed.size(), 1u);
  impairment.release(kOpened + micros(static_cast<int64_t>(fit * (1000 + header))), sink);
  EXPECT_EQ(sink.passed.size(), fit);
  expect_balanced_books(impairment, sink, outgoing(), 20);
}

TEST_P(BothWays, a_corrupted_datagram_differs_in_one_bit) {
  Impairment impairment = make("corrupt=100%" + direction());
  Source source(impairment, outgoing());
  Sink sink;
  source.burst(kOpened, 1, sink, 0, 100);
  ASSERT_EQ(sink.passed.size(), 1u);
  int flipped = 0;
  for (const std::byte b : sink.passed[0].bytes) flipped += std::popcount(std::to_integer<uint8_t>(b));
  EXPECT_EQ(flipped, 1) << "all bytes of the first datagram were zero";
}

TEST_P(BothWays, a_full_delay_queue_counts_what_it_drops) {
  Impairment impairment = make("delay=60s" + direction());
  Source source(impairment, outgoing());
  Sink sink;
  for (uint32_t i = 0; i < DelayQueue::kMaxDatagrams / 50 + 1; ++i) source.burst(kOpened, 50, sink, 3, 24);
  EXPECT_EQ(impairment.queued(outgoing()), DelayQueue::kMaxDatagrams);
  expect_balanced_books(impairment, sink, outgoing(), source.sent());
  EXPECT_EQ(impairment.counters(outgoing()).dropped_queue, source.sent() - DelayQueue::kMaxDatagrams);
  EXPECT_EQ(impairment.paths(outgoing())[3].dropped, source.sent() - DelayQueue::kMaxDatagrams);
}

INSTANTIATE_TEST_SUITE_P(Directions, BothWays, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "out" : "in"; });

TEST(Impairment, survivors_of_a_sent_burst_stay_one_burst) {
  Impairment impairment = make("loss=20%", 5);
  Source source(impairment, true);
  Sink sink;
  for (int i = 0; i < 100; ++i) source.burst(kOpened, 15, sink);
  EXPECT_GT(sink.drops, 200u);
  EXPECT_EQ(sink.bursts, 100u) << "no burst of these lost all of its segments";
}

TEST(Impairment, delayed_segments_leave_as_one_burst_again) {
  Impairment impairment = make("delay=1ms");
  Source source(impairment, true);
  Sink sink;
  source.burst(kOpened, 15, sink);
  source.burst(kOpened, 15, sink);  // behind a short segment a new burst must begin
  impairment.release(kOpened + millis(1), sink);
  EXPECT_EQ(sink.passed.size(), 30u);
  EXPECT_EQ(sink.bursts, 2u);
}

TEST(Impairment, no_clause_is_no_impairment) {
  const Impairment impairment;
  EXPECT_FALSE(impairment.impairs_out() || impairment.impairs_in());
  EXPECT_EQ(impairment.next_deadline(), kNever);
}

TEST(Impairment, a_seed_in_the_text_wins_over_the_one_of_the_endpoint) {
  EXPECT_EQ(make("loss=1%,seed=9", 4).seed(), 9u);
  EXPECT_EQ(make("loss=1%", 4).seed(), 4u);
}

TEST(Impairment, a_release_is_bounded_when_asked) {
  Impairment impairment = make("delay=1us,dir=in");
  Source source(impairment, false);
  Sink sink;
  source.burst(kOpened, 10, sink);
  impairment.release(kOpened + millis(1), sink, 4);
  EXPECT_EQ(sink.passed.size(), 4u);
  impairment.release(kOpened + millis(1), sink, 40);
  EXPECT_EQ(sink.passed.size(), 10u);
}

}  // namespace
}  // namespace mroce::net
