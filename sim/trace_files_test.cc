// What traces keep and write: samples, incidents, captures, trace events.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "sim/incidents.h"
#include "sim/leaf_spine.h"
#include "sim/link_samples.h"
#include "sim/packet_capture.h"
#include "sim/perfetto.h"
#include "sim/test_run.h"

namespace mroce::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Topology two_leaves() {
  LeafSpineSpec spec;
  spec.leaves = 2;
  spec.hosts_per_leaf = 2;
  spec.spines = 1;
  return make_leaf_spine(spec).value();
}

TEST(LinkSamples, beyond_the_limit_every_second_time_is_forgotten_and_the_rest_stays_regular) {
  LinkSamples samples({4, 5}, 100, 2 * 8);
  SimTime next = 0;
  uint64_t taken = 0;
  while (next < 10'000) {
    const auto bytes = static_cast<uint64_t>(next);
    const std::vector<LinkSample> row{{bytes, next / 2, 7}, {0, 0, 0}};
    ++taken;
    const SimTime then = samples.add(row);
    ASSERT_GT(then, next);
    ASSERT_EQ(then % samples.interval(), 0);
    next = then;
  }
  EXPECT_EQ(samples.interval(), 1600);
  EXPECT_LE(samples.rows(), 8U);
  EXPECT_EQ(samples.rows(), 7U);  // 0, 1600, …, 9600
  EXPECT_LT(taken, 40U);
  for (size_t row = 0; row < samples.rows(); ++row) {
    EXPECT_EQ(samples.sample(row, 0).arrived_bytes, static_cast<uint64_t>(samples.at(row)));
    if (row == 0) continue;
    EXPECT_EQ(samples.paused(row, 0), 800);
    EXPECT_DOUBLE_EQ(samples.gbps(row, 0), 8000.0);  // a byte each picosecond
  }
}

TEST(LinkSamples, the_busiest_are_those_with_the_highest_peaks_in_the_order_of_links) {
  const LinkSamples samples({10, 11, 12, 13, 14}, 100);
  const std::vector<uint64_t> peaks{5, 0, 9, 5, 7};
  EXPECT_THAT(samples.busiest(peaks, 3), ElementsAre(0, 2, 4));
  EXPECT_THAT(samples.busiest(peaks, 100), ElementsAre(0, 2, 3, 4));
}

TEST(LinkSamples, the_table_has_a_line_for_each_time_and_link) {
  LinkSamples samples({0, 4}, microseconds(1));
  samples.add(std::vector<LinkSample>{{0, 0, 0}, {0, 0, 0}});
  samples.add(std::vector<LinkSample>{{50'000, 0, 4160}, {12'500, 250'000, 0}});
  std::ostringstream out;
  samples.write_csv(out, two_leaves(), std::vector<size_t>{0, 1});
  EXPECT_EQ(out.str(),
            "time_us,link,queue_bytes,gbps,paused_us\n"
            "0.000000,host 0 -> leaf 0,0,0.000,0.000000\n"
            "0.000000,leaf 0 -> host 0,0,0.000,0.000000\n"
            "1.000000,host 0 -> leaf 0,4160,400.000,0.000000\n"
            "1.000000,leaf 0 -> host 0,0,100.000,0.250000\n");
}

Incident incident(SimTime at, Incident::Kind kind, uint32_t link, uint8_t priority = 0) {
  Incident out;
  out.at = at;
  out.kind = kind;
  out.link = link;
  out.priority = priority;
  return out;
}

TEST(Incidents, pauses_end_with_their_resume_or_with_the_run) {
  Incidents incidents;
  incidents.add(incident(10, Incident::Kind::kPause, 1, 3));
  incidents.add(incident(11, Incident::Kind::kPause, 1, 4));
  incidents.add(incident(15, Incident::Kind::kResume, 1, 3));
  incidents.add(incident(18, Incident::Kind::kPause, 1, 3));
  incidents.end(30);
  ASSERT_EQ(incidents.pauses().size(), 3U);
  EXPECT_EQ(incidents.pauses()[0].to, 15);
  EXPECT_EQ(incidents.pauses()[1].to, 30);
  EXPECT_EQ(incidents.pauses()[2].from, 18);
  EXPECT_EQ(incidents.pauses()[2].to, 30);
}

TEST(Incidents, the_first_are_kept_and_all_are_counted) {
  Incidents incidents({.pauses = 1, .marks = 2, .drops = 3});
  for (SimTime at = 0; at < 10; ++at) {
    incidents.add(incident(at, Incident::Kind::kPause, 1));
    incidents.add(incident(at, Incident::Kind::kResume, 1));
    incidents.add(incident(at, Incident::Kind::kMark, 1));
    incidents.add(incident(at, Incident::Kind::kLost, 1));
  }
  incidents.end(20);
  EXPECT_EQ(incidents.pauses().size(), 1U);
  EXPECT_EQ(incidents.pauses()[0].to, 0);
  EXPECT_EQ(incidents.marks().size(), 2U);
  EXPECT_EQ(incidents.drops().size(), 3U);
  EXPECT_EQ(incidents.drops().back().at, 2);
  EXPECT_EQ(incidents.all_pauses(), 10U);
  EXPECT_EQ(incidents.all_marks(), 10U);
  EXPECT_EQ(incidents.all_drops(), 10U);
}

TEST(PacketCapture, stops_at_its_maximum_size_and_counts_the_rest) {
  const std::string path = ::testing::TempDir() + "mroce-capture-" + std::to_string(getpid()) + ".pcapng";
  const Topology topology = two_leaves();
  constexpr uint64_t kMaxBytes = 20'000;
  auto capture = PacketCapture::open(path, topology, {0}, WireProtocol::kRocev2, 0, kMaxBytes);
  ASSERT_TRUE(capture.has_value()) << capture.error();
  const std::vector<std::byte> header(28);
  TracedPacket packet;
  packet.packet.payload = 4096;
  for (int i = 0; i < 1000; ++i) capture->add(packet, header);
  EXPECT_EQ(capture->written() + capture->left_out(), 1000U);
  EXPECT_GT(capture->left_out(), 0U);
  EXPECT_GT(capture->written(), 100U);
  EXPECT_TRUE(capture->close());
  EXPECT_LE(std::filesystem::file_size(path), kMaxBytes);
  unlink(path.c_str());
}

TEST(PacketCapture, a_file_that_cannot_be_written_is_an_error) {
  const Topology topology = two_leaves();
  const auto capture = PacketCapture::open("/no/such/folder/x", topology, {0}, WireProtocol::kTcp);
  ASSERT_FALSE(capture.has_value());
  EXPECT_THAT(capture.error(), HasSubstr("cannot write /no/such/folder/x: No such file"));
  auto full = PacketCapture::open("/dev/full", topology, {0}, WireProtocol::kTcp);
  ASSERT_TRUE(full.has_value());
  EXPECT_FALSE(full->close());
}

TEST(Perfetto, flows_that_overlap_are_on_threads_of_their_own) {
  const Topology topology = two_leaves();
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 3; ++i) flows.push_back(make_flow(70 + i, 0, 2, 4096));
  flows[0].started = 0, flows[0].finished = 1'000'000;
  flows[1].started = 500'000, flows[1].finished = kEndOfTime;
  flows[2].started = 1'000'000, flows[2].finished = 1'500'001;
  LinkSamples samples({4}, 1000);
  std::ostringstream out;
  write_perfetto(out, {topology, flows, samples, {}, Incidents(), 2'000'000, "{}"});
  const std::string text = out.str();
  EXPECT_THAT(text, HasSubstr(R"("pid":1,"tid":1,"ts":0.000000,"dur":1.000000,"name":"flow 70 to host 2")"));
  EXPECT_THAT(text, HasSubstr(R"("pid":1,"tid":2,"ts":0.500000,"dur":1.500000,"name":"flow 71 to host 2")"));
  EXPECT_THAT(text, HasSubstr(R"("pid":1,"tid":1,"ts":1.000000,"dur":0.500001,"name":"flow 72 to host 2")"));
  EXPECT_THAT(text, Not(HasSubstr("\"tid\":3")));
  EXPECT_THAT(text, HasSubstr("\"finished\":false"));
}

}  // namespace
}  // namespace mroce::sim
