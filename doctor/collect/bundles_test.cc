// Bundles together: merged, compared, listed; and samples as they are kept.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "doctor/collect/diff.h"
#include "doctor/collect/inventory.h"
#include "doctor/collect/merge.h"
#include "doctor/collect/sampler.h"
#include "doctor/ingest.h"

namespace mroce::doctor {
namespace {

Bundle bundle_of(std::string host, Phase phase, int64_t seconds, std::vector<BundleSource> sources) {
  Bundle bundle;
  bundle.writer = "test";
  bundle.host = std::move(host);
  bundle.boot_id = "b";
  bundle.snapshots.push_back({phase, seconds * 1'000'000'000, std::move(sources)});
  return bundle;
}

Bundle counting(std::string host, int64_t seconds, uint64_t out_of_sequence) {
  return bundle_of(std::move(host), Phase::kStart, seconds,
                   {{"/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "", "",
                     fmt::format("{}\n", out_of_sequence), ""}});
}

Evidence evidence_of(const std::vector<Bundle>& bundles) {
  Evidence evidence;
  for (const Bundle& bundle : bundles) {
    Context context(evidence, builtin_rulebook());
    context.keep_unknown = true;
    ingest({"x.json", "", to_json(bundle), false}, context);
  }
  assemble(evidence, builtin_rulebook(), true);
  return evidence;
}

std::vector<std::string> hosts_in(std::string_view text, std::vector<MergeProblem>* problems = nullptr) {
  std::vector<std::string> hosts;
  find_bundles(
      text, "f", [&](Bundle&& bundle) { hosts.push_back(bundle.host); },
      [&](MergeProblem&& problem) {
        if (problems != nullptr) problems->push_back(std::move(problem));
      });
  return hosts;
}

std::string labelled(const std::string& label, const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    out += label + text.substr(at, end - at + 1);
    at = end + 1;
  }
  return out;
}

// Lines of both in turn, as they arrive from two hosts.
std::string interleaved(const std::string& a, const std::string& b) {
  std::string out;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    for (auto [text, at] : {std::pair{&a, &i}, std::pair{&b, &j}}) {
      if (*at >= text->size()) continue;
      const size_t end = text->find('\n', *at);
      out += text->substr(*at, end - *at + 1);
      *at = end + 1;
    }
  }
  return out;
}

TEST(Merge, bundles_one_after_the_other_are_found) {
  EXPECT_EQ(hosts_in(to_json(counting("a", 1, 2)) + "some words\n" + to_json(counting("b", 1, 2))),
            (std::vector<std::string>{"a", "b"}));
}

TEST(Merge, labels_of_launchers_are_taken_off_and_mixed_lines_put_together) {
  const std::string a = to_json(counting("a", 1, 2)), b = to_json(counting("b", 1, 2));
  for (const auto& [one, two] : {std::pair{"nodeA: ", "node-b.x: "}, std::pair{"0: ", "12: "},
                                 std::pair{"[1,0]<stdout>:", "[1,1]<stdout>:"}}) {
    EXPECT_EQ(hosts_in(interleaved(labelled(one, a), labelled(two, b))), (std::vector<std::string>{"a", "b"}))
        << one;
  }
}

TEST(Merge, banners_of_ansible_and_complaints_of_pdsh_are_passed_over) {
  EXPECT_EQ(hosts_in("a | CHANGED | rc=0 >>\n" + to_json(counting("a", 1, 2)) + "b | CHANGED | rc=0 >>\n" +
                     to_json(counting("b", 1, 2)) + "pdsh@x: c: ssh exited with exit code 1\n"),
            (std::vector<std::string>{"a", "b"}));
}

TEST(Merge, a_bundle_that_is_cut_off_is_named_and_does_not_take_the_next_with_it) {
  std::vector<MergeProblem> problems;
  const std::string a = to_json(counting("a", 1, 2));
  const auto hosts = hosts_in(a.substr(0, a.size() / 2) + "\n" + to_json(counting("b", 1, 2)), &problems);
  EXPECT_EQ(hosts.back(), "b");
  ASSERT_FALSE(problems.empty());
  EXPECT_GT(problems[0].line, 0u);
}

TEST(Merge, what_holds_no_bundle_is_named) {
  std::vector<MergeProblem> problems;
  EXPECT_TRUE(hosts_in("{ \"a\": 1 }\n{\n", &problems).empty());
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].reason, "there is no bundle in it");
}

const CounterChange& only_change(const HostDiff& diff) {
  EXPECT_EQ(diff.ports.size(), 1u);
  EXPECT_EQ(diff.ports.at(0).counters.size(), 1u);
  return diff.ports.at(0).counters.at(0);
}

TEST(Diff, a_counter_that_grew_has_a_change_a_rate_and_both_names) {
  const auto change = only_change(diff(evidence_of({counting("a", 10, 100)}),
                                       evidence_of({counting("a", 14, 300)}), builtin_rulebook(), false));
  EXPECT_EQ(change.canonical, "out_of_sequence");
  EXPECT_EQ(change.vendor_name, "out_of_sequence");
  EXPECT_EQ(change.delta, 200);
  EXPECT_EQ(change.per_second, 50);
}

TEST(Diff, one_of_32_bits_that_went_through_zero_has_wrapped) {
  const auto change = only_change(diff(evidence_of({counting("a", 10, 4'294'967'290)}),
                                       evidence_of({counting("a", 11, 4)}), builtin_rulebook(), false));
  EXPECT_EQ(change.state, DeltaState::kWrapped);
  EXPECT_EQ(change.delta, 10);
}

TEST(Diff, one_that_fell_was_reset_and_has_no_rate) {
  const auto change = only_change(diff(evidence_of({counting("a", 10, 1000)}),
                                       evidence_of({counting("a", 11, 4)}), builtin_rulebook(), false));
  EXPECT_EQ(change.state, DeltaState::kReset);
  EXPECT_FALSE(change.per_second);
}

TEST(Diff, what_did_not_change_is_counted_and_shown_only_on_request) {
  const Evidence a = evidence_of({counting("a", 10, 7)}), b = evidence_of({counting("a", 11, 7)});
  const HostDiff brief = diff(a, b, builtin_rulebook(), false);
  EXPECT_TRUE(brief.ports.empty());
  EXPECT_EQ(brief.unchanged, 1u);
  EXPECT_EQ(only_change(diff(a, b, builtin_rulebook(), true)).delta, 0);
}

TEST(Diff, another_boot_and_hosts_of_one_side_are_remarked) {
  Bundle later = counting("a", 20, 1);
  later.boot_id = "c";
  const HostDiff out = diff(evidence_of({counting("a", 10, 7), counting("b", 10, 7)}),
                            evidence_of({later, counting("c", 10, 7)}), builtin_rulebook(), false);
  ASSERT_EQ(out.remarks.size(), 3u);
  EXPECT_EQ(out.remarks[0], "a was started anew in between: its counters began at 0 again");
  EXPECT_EQ(out.remarks[1], "b is in the first only");
  EXPECT_EQ(out.remarks[2], "c is in the second only");
}

Bundle configured(std::string host, const std::string& enabled) {
  return bundle_of(
      std::move(host), Phase::kStart, 1,
      {{"mlnx_qos -i eth0", "", "eth0",
        "Priority trust state: dscp\nPFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
        "\tenabled     " +
            enabled + "\n",
        ""}});
}

TEST(Inventory, ends_that_differ_are_marked_and_what_was_not_read_is_unknown) {
  const Inventory inventory = take_inventory(evidence_of(
      {configured("a", "0   0   0   1   0   0   0   0"), configured("b", "0   0   0   0   0   0   0   0")}));
  ASSERT_EQ(inventory.rows.size(), 2u);
  EXPECT_EQ(priorities_text(inventory.rows[0].pfc), "3");
  EXPECT_EQ(priorities_text(inventory.rows[1].pfc), "none");
  EXPECT_EQ(priorities_text(inventory.rows[0].ecn_np), "?");
  EXPECT_EQ(inventory.rows[0].mismatches, (std::vector<std::string>{"pfc"}));
  EXPECT_EQ(inventory.rows[1].mismatches, (std::vector<std::string>{"pfc"}));
  EXPECT_EQ(inventory.sentences.size(), 2u);
}

TEST(Inventory, of_three_the_odd_one_is_marked) {
  const std::string three = "0   0   0   1   0   0   0   0";
  const Inventory inventory = take_inventory(evidence_of(
      {configured("a", three), configured("b", "0   0   0   0   1   0   0   0"), configured("c", three)}));
  ASSERT_EQ(inventory.sentences.size(), 1u);
  EXPECT_EQ(inventory.sentences[0], "pfc: b eth0 has 4, most have 3");
}

TEST(Inventory, dcqcn_needs_notification_and_reaction) {
  InventoryRow row;
  row.ecn_np[3] = Known::kOn;
  EXPECT_EQ(priorities_text(dcqcn_of(row)), "?");
  row.ecn_rp[3] = Known::kOn;
  EXPECT_EQ(priorities_text(dcqcn_of(row)), "3");
  row.ecn_rp[3] = Known::kOff;
  EXPECT_EQ(priorities_text(dcqcn_of(row)), "none");
}

Snapshot sample(const std::string& lines) {
  return {Phase::kSample, 1, {{"grep -r . /sys/class/net/eth0", "", "eth0", lines, ""}}};
}

TEST(Samples, a_counter_is_kept_from_its_first_move_on_with_the_value_before) {
  SampleKeeper keeper;
  keeper.add(sample("/a/x:1\n/a/still:5\n"));
  keeper.add(sample("/a/x:1\n/a/still:5\n"));
  keeper.add(sample("/a/x:9\n/a/still:5\n"));
  keeper.add(sample("/a/x:9\n/a/still:5\n"));
  ASSERT_EQ(keeper.samples().size(), 4u);
  EXPECT_TRUE(keeper.samples()[0].sources.empty());
  for (const size_t i : {1u, 2u, 3u}) ASSERT_EQ(keeper.samples()[i].sources.size(), 1u) << i;
  EXPECT_EQ(keeper.samples()[1].sources[0].text, "/a/x:1\n");
  EXPECT_EQ(keeper.samples()[2].sources[0].text, "/a/x:9\n");
  EXPECT_EQ(keeper.samples()[3].sources[0].text, "/a/x:9\n");
}

TEST(Samples, very_many_become_every_second_one) {
  SampleKeeper keeper;
  for (size_t i = 0; i + 1 < SampleKeeper::kMaxSamples; ++i) {
    keeper.add(sample("/a/x:1\n"));
    ASSERT_FALSE(keeper.thin());
  }
  keeper.add(sample("/a/x:1\n"));
  EXPECT_TRUE(keeper.thin());
  EXPECT_EQ(keeper.samples().size(), SampleKeeper::kMaxSamples / 2);
}

}  // namespace
}  // namespace mroce::doctor
