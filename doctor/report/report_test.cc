#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "doctor/bundle.h"
#include "doctor/escape.h"
#include "doctor/ingest.h"
#include "doctor/report/chart.h"
#include "doctor/report/html.h"

namespace mroce::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHostile = "<script>alert('1')</script>\"&\x1b[31m\xff\xe2\x80\xae";

TEST(Escape, markup_quotes_and_control_characters_lose_their_meaning) {
  EXPECT_EQ(html_text("a<b>&\"'c"), "a&lt;b&gt;&amp;&quot;&#39;c");
  EXPECT_EQ(clean_text("tab\tline\nend"), "tab line end");
  EXPECT_EQ(clean_text(std::string_view("\0\x1b[0m", 5)), "\xef\xbf\xbd\xef\xbf\xbd[0m");
  EXPECT_EQ(clean_text("\xe2\x80\xaegnp.exe"), "\xef\xbf\xbdgnp.exe") << "turns the direction of writing";
}

TEST(Escape, broken_utf8_is_replaced_and_good_utf8_is_kept) {
  EXPECT_EQ(clean_text("Grüße 漢 🙂"), "Grüße 漢 🙂");
  EXPECT_EQ(clean_text("\xc3"), "\xef\xbf\xbd") << "cut";
  EXPECT_EQ(clean_text("\xc0\xbc"), "\xef\xbf\xbd\xef\xbf\xbd") << "an overlong <";
  EXPECT_EQ(clean_text("\xed\xa0\x80").find("\xed\xa0"), std::string::npos) << "a surrogate";
  EXPECT_EQ(clean_text("\xf4\x90\x80\x80").find("\xf4"), std::string::npos) << "beyond Unicode";
}

TEST(Escape, long_text_is_cut_between_characters) {
  EXPECT_EQ(clean_text("ääää", 5), "ää…");
  EXPECT_EQ(clean_text("abc", 3), "abc");
}

TEST(Numbers, are_short_and_ticks_are_round) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(1500), "1.5\u00a0k");
  EXPECT_EQ(short_number(999.7), "1\u00a0k");
  EXPECT_EQ(short_number(2.5e8), "250\u00a0M");
  EXPECT_EQ(short_number(NAN), "?");
  EXPECT_DOUBLE_EQ(nice_step(100, 10), 10);
  EXPECT_DOUBLE_EQ(nice_step(61, 10), 10);
  EXPECT_DOUBLE_EQ(nice_step(0.3, 2), 0.2);
  EXPECT_DOUBLE_EQ(nice_step(0, 2), 1);
  EXPECT_EQ(time_label(30, 60), "30 s");
  EXPECT_EQ(time_label(1800, 3600), "30 min");
}

TEST(Thinned, keeps_peaks_of_events_and_means_of_throughput) {
  std::vector<ChartStep> steps;
  for (int i = 0; i < 10'000; ++i) steps.push_back({i * 1.0, i + 1.0, i == 5000 ? 100.0 : 1.0});
  const auto peaks = thinned(steps, kMaxSteps, Thin::kPeak), means = thinned(steps, kMaxSteps, Thin::kMean);
  const auto greatest = [](const std::vector<ChartStep>& list) {
    double out = 0;
    for (const ChartStep& step : list) out = std::max(out, step.value);
    return out;
  };
  EXPECT_LE(peaks.size(), kMaxSteps);
  EXPECT_EQ(greatest(peaks), 100);
  EXPECT_NEAR(greatest(means), 1 + 99.0 / 17, 0.5);
  EXPECT_EQ(peaks.front().from_s, 0);
  EXPECT_EQ(peaks.back().to_s, 10'000);
  EXPECT_EQ(thinned(steps, 20'000, Thin::kPeak).size(), 10'000u);
}

Snapshot sample(int second, const std::string& ethtool) {
  Snapshot out;
  out.phase = Phase::kSample;
  out.time_ns = 1'700'000'000'000'000'000 + second * 1'000'000'000ll;
  out.sources.push_back({"ethtool -S eth0", "mlx5_0", "eth0", "NIC statistics:\n" + ethtool, ""});
  return out;
}

Evidence evidence_of(const std::vector<Bundle>& bundles) {
  Evidence evidence;
  for (const Bundle& bundle : bundles)
    ingest({"bundle.json", "", to_json(bundle), false}, Context(evidence, builtin_rulebook()));
  assemble(evidence, builtin_rulebook());
  return evidence;
}

const Chart* chart_of(const Timeline& timeline, std::string_view title) {
  for (const ChartGroup& group : timeline.groups)
    for (const Chart& chart : group.charts)
      if (chart.title == title) return &chart;
  return nullptr;
}

std::vector<double> values_of(const Series& series) {
  std::vector<double> out;
  for (const ChartStep& step : series.steps) out.push_back(step.value);
  return out;
}

TEST(Timeline, shows_rates_between_samples_and_names_what_never_moved) {
  Bundle bundle;
  bundle.host = "a";
  for (int i = 0; i < 4; ++i)
    bundle.snapshots.push_back(sample(i, "  rx_prio3_pause_duration: " + std::to_string(i * i * 10'000) +
                                             "\n  rx_prio4_pause_duration: " + std::to_string(i * 10'000) +
                                             "\n  rx_discards_phy: 7\n  tx_vport_rdma_unicast_bytes: " +
                                             std::to_string(i * 1'000'000'000ll) + "\n"));
  const auto evidence = evidence_of({bundle});
  const auto timeline = timeline_of(evidence, builtin_rulebook(), {}, {});
  ASSERT_EQ(timeline.groups.size(), 1u);
  EXPECT_DOUBLE_EQ(timeline.seconds, 3);
  const Chart* pause = chart_of(timeline, "Time stopped by pause");
  ASSERT_NE(pause, nullptr);
  ASSERT_EQ(pause->series.size(), 1u);
  EXPECT_THAT(values_of(pause->series[0]), ::testing::ElementsAre(2, 4, 6)) << "priorities 3 and 4 together";
  const Chart* throughput = chart_of(timeline, "Throughput");
  ASSERT_NE(throughput, nullptr);
  EXPECT_DOUBLE_EQ(throughput->series[0].mean, 8);
  EXPECT_THAT(timeline.groups[0].still, ::testing::Contains("drops: on arrival"));
}

TEST(Timeline, a_reset_leaves_a_hole_and_no_negative_rate) {
  Bundle bundle;
  bundle.host = "a";
  int second = 0;
  for (const int value : {1'000'000, 2'000'000, 5, 1'000'005})
    bundle.snapshots.push_back(sample(second++, "  rx_prio3_pause: " + std::to_string(value) + "\n"));
  const auto timeline = timeline_of(evidence_of({bundle}), builtin_rulebook(), {}, {});
  const Chart* pause = chart_of(timeline, "Pause frames");
  ASSERT_NE(pause, nullptr);
  EXPECT_THAT(values_of(pause->series[0]), ::testing::ElementsAre(1'000'000, 1'000'000));
}

TEST(Timeline, start_and_end_alone_are_no_course) {
  Bundle bundle;
  bundle.host = "a";
  bundle.snapshots = {sample(0, "  rx_prio3_pause: 1\n"), sample(9, "  rx_prio3_pause: 2\n")};
  EXPECT_TRUE(timeline_of(evidence_of({bundle}), builtin_rulebook(), {}, {}).groups.empty());
}

TEST(Timeline, draws_so_many_ports_and_names_the_rest) {
  std::vector<Bundle> bundles;
  for (size_t host = 0; host < kMaxGroups + 3; ++host) {
    Bundle& bundle = bundles.emplace_back();
    bundle.host = "n" + std::to_string(host);
    for (int i = 0; i < 4; ++i)
      bundle.snapshots.push_back(sample(i, "  rx_prio3_pause: " + std::to_string(i) + "\n"));
  }
  Diagnosis diagnosis;
  diagnosis.findings.emplace_back().evidence.emplace_back().host = "n18";
  const auto timeline = timeline_of(evidence_of(bundles), builtin_rulebook(), {}, diagnosis);
  EXPECT_EQ(timeline.groups.size(), kMaxGroups);
  EXPECT_EQ(timeline.groups[0].host, "n18") << "what the diagnosis speaks of comes first";
  EXPECT_EQ(timeline.left_out.size(), 3u);
}

TEST(Timeline, hosts_whose_clocks_disagree_begin_together) {
  std::vector<Bundle> bundles(2);
  for (int i = 0; i < 4; ++i) {
    bundles[0].snapshots.push_back(sample(i, "  rx_prio3_pause: " + std::to_string(i) + "\n"));
    bundles[1].snapshots.push_back(sample(i + 86'400, "  rx_prio3_pause: " + std::to_string(i) + "\n"));
  }
  bundles[0].host = "a";
  bundles[1].host = "b";
  const auto timeline = timeline_of(evidence_of(bundles), builtin_rulebook(), {}, {});
  EXPECT_TRUE(timeline.own_clocks);
  EXPECT_DOUBLE_EQ(timeline.seconds, 3);
}

TEST(Gpu, tables_of_nvidia_smi_and_lines_of_rocm_smi_are_read) {
  Bundle bundle;
  bundle.host = "a";
  Snapshot& snapshot = bundle.snapshots.emplace_back();
  snapshot.time_ns = 5;
  snapshot.sources.push_back(
      {"nvidia-smi --query-gpu=index,utilization.gpu,power.draw,clocks.sm,temperature.gpu --format=csv", "",
       "",
       "index, utilization.gpu [%], power.draw [W], clocks.current.sm [MHz], temperature.gpu\n"
       "0, 97 %, 301.20 W, 1410 MHz, 61\n1, [N/A], 70.00 W, 210 MHz, 33\nbroken\n",
       ""});
  snapshot.sources.push_back(
      {"rocm-smi --showuse", "", "",
       "GPU[0]\t\t: GPU use (%): 42\nGPU[0]\t\t: Average Graphics Package Power (W): 90.5\n", ""});
  std::vector<GpuReading> readings;
  read_gpus(bundle, readings);
  ASSERT_EQ(readings.size(), 3u);
  EXPECT_EQ(readings[0].busy_pct, 97);
  EXPECT_EQ(readings[0].clock_mhz, 1410);
  EXPECT_FALSE(readings[1].busy_pct) << "not available is not zero";
  EXPECT_EQ(readings[2].busy_pct, 42);
  EXPECT_EQ(readings[2].power_w, 90.5);
}

Diagnosis hostile_diagnosis() {
  Diagnosis out;
  out.outcome = Outcome::kFinding;
  out.rule = out.sentence = kHostile;
  Finding finding;
  finding.rule = finding.sentence = finding.next_check = finding.fix = finding.source = kHostile;
  finding.outranked_by = kHostile;
  finding.lowered_because = {kHostile};
  Proof proof;
  proof.file = proof.source = proof.host = proof.port = proof.counter = proof.text = kHostile;
  finding.evidence.assign(100, proof);
  out.findings.assign(3, finding);
  out.missing = {kHostile};
  out.problems.assign(5000, {kHostile, kHostile, 3, kHostile});
  return out;
}

TEST(Html, nothing_from_a_file_becomes_markup) {
  Timeline timeline;
  timeline.seconds = 1;
  timeline.groups.push_back(
      {kHostile, kHostile, kHostile, {{kHostile, kHostile, {{kHostile, {{0, 1, 1}}, 1, 1, 0}}}}, {kHostile}});
  timeline.left_out = {kHostile};
  const std::string page = html_of(hostile_diagnosis(), timeline, {kHostile, kHostile});
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
  EXPECT_THAT(page, Not(HasSubstr("\xff")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;"));
  EXPECT_THAT(page, Not(HasSubstr("http://"))) << "nothing is loaded";
  EXPECT_THAT(page, HasSubstr("and 4900 more"));
  EXPECT_LT(page.size(), 1u << 20);
}

TEST(Html, leads_with_the_verdict_and_says_what_there_is_to_do) {
  Diagnosis diagnosis;
  diagnosis.outcome = Outcome::kFinding;
  diagnosis.rule = "pfc-storm";
  diagnosis.layer = Layer::kHardware;
  diagnosis.confidence = Confidence::kHigh;
  diagnosis.sentence = "The adapter sends pause";
  Finding& finding = diagnosis.findings.emplace_back();
  finding.rule = "pfc-storm";
  finding.sentence = diagnosis.sentence;
  finding.next_check = "look at the PCIe slot";
  Proof& proof = finding.evidence.emplace_back();
  proof.counter = "tx_prio3_pause";
  proof.delta = 1234567;
  diagnosis.missing = {"the counters of the other end"};
  const std::string page = html_of(diagnosis, {}, {"1", ""});
  const auto at = [&](std::string_view text) { return page.find(text); };
  EXPECT_LT(at("<h1>The adapter sends pause</h1>"), at("look at the PCIe slot"));
  EXPECT_LT(at("look at the PCIe slot"), at("the counters of the other end"));
  EXPECT_THAT(page, HasSubstr("1,234,567"));
  EXPECT_THAT(page, HasSubstr("confidence <b>high</b>"));
  EXPECT_THAT(page, HasSubstr(report_style_hash()));
}

TEST(Chart, paths_stay_in_the_picture_and_break_at_holes) {
  Chart chart{"CNP", "packets/s", {{"sent", {{0, 1, 5}, {1, 2, 1e300}, {3, 4, 2}}, 5, 3, 0}}};
  const std::string svg = svg_of(chart, 4, true);
  EXPECT_THAT(svg, HasSubstr("packets/s"));
  EXPECT_THAT(svg, HasSubstr("4 s"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  const size_t line = svg.find("class=\"line\"");
  const std::string path = svg.substr(line, svg.find("/>", line) - line);
  EXPECT_EQ(std::count(path.begin(), path.end(), 'M'), 2);
}

}  // namespace
}  // namespace mroce::doctor
