#include "doctor/ingest.h"

#include <gtest/gtest.h>

#include "doctor/bundle.h"
#include "doctor/judge.h"
#include "doctor/lenient_json.h"
#include "doctor/page.h"

namespace mroce::doctor {
namespace {

struct Dump {
  const char* name;
  std::string text;
};

Evidence gathered(const std::vector<Dump>& dumps) {
  Evidence evidence;
  for (const Dump& dump : dumps)
    ingest({dump.name, dump.name, dump.text, false}, Context(evidence, builtin_rulebook()));
  assemble(evidence, builtin_rulebook());
  return evidence;
}

const Counter* counter(const Evidence& evidence, std::string_view host, std::string_view name) {
  for (const Host& each : evidence.hosts)
    if (each.name == host)
      for (const Port& port : each.ports)
        for (const Counter& found : port.counters)
          if (found.vendor_name == name) return &found;
  return nullptr;
}

TEST(Hints, names_of_files_tell_host_phase_and_role) {
  const NameHints a = hints_of("nodeA/ethtool-eth0-before.txt");
  EXPECT_EQ(a.host, "nodeA");
  EXPECT_EQ(a.netdev, "eth0");
  EXPECT_EQ(a.phase, Phase::kStart);
  const NameHints b = hints_of("receiver_mlx5_0_post.json");
  EXPECT_EQ(b.host, "receiver");
  EXPECT_EQ(b.role, Role::kReceiver);
  EXPECT_EQ(b.device, "mlx5_0");
  EXPECT_EQ(b.phase, Phase::kEnd);
  EXPECT_EQ(hints_of("node-7.ethtool.t1.log").host, "node-7");
  EXPECT_EQ(hints_of("ethtool.2.txt").host, "");
  EXPECT_EQ(hints_of("ib_write_bw-8qp.txt").variant, "8qp");
}

TEST(Assemble, thirty_two_bits_wrap_and_other_steps_back_are_resets) {
  const auto evidence =
      gathered({{"a-before.txt", "link mlx5_0/1 packet_seq_err 4294967290 rp_cnp_handled 50\n"},
                {"a-after.txt", "link mlx5_0/1 packet_seq_err 4 rp_cnp_handled 3\n"}});
  const Counter* wrapped = counter(evidence, "a", "packet_seq_err");
  ASSERT_NE(wrapped, nullptr);
  EXPECT_EQ(wrapped->state, DeltaState::kWrapped);
  EXPECT_EQ(wrapped->delta, 10.0);
  EXPECT_EQ(counter(evidence, "a", "rp_cnp_handled")->state, DeltaState::kReset);
  EXPECT_FALSE(counter(evidence, "a", "rp_cnp_handled")->delta);
}

TEST(Assemble, one_reading_is_no_growth) {
  const auto evidence = gathered({{"a.txt", "NIC statistics:\n     rx_prio3_pause: 132000000\n"}});
  const Counter* total = counter(evidence, "a", "rx_prio3_pause");
  ASSERT_NE(total, nullptr);
  EXPECT_EQ(total->state, DeltaState::kNone);
  EXPECT_FALSE(total->delta);
}

TEST(Ingest, what_cannot_be_read_is_absent_and_not_zero) {
  const auto evidence =
      gathered({{"a.txt",
                 "NIC statistics:\n     rx_prio3_pause: N/A\n     rx_discards_phy: 18446744073709551615\n"
                 "     tx_prio3_pause: 7\n"}});
  EXPECT_EQ(counter(evidence, "a", "rx_prio3_pause"), nullptr);
  EXPECT_EQ(counter(evidence, "a", "rx_discards_phy"), nullptr);
  EXPECT_NE(counter(evidence, "a", "tx_prio3_pause"), nullptr);
}

TEST(Ingest, rdma_statistic_is_the_same_as_a_line_as_lines_and_as_json) {
  for (const char* text :
       {"link irdma0/1 cnpSent 5 RNR sent 9 \n", "link irdma0/1\n    cnpSent 5\n    RNR sent 9\n",
        "[{\"ifname\":\"irdma0\",\"port\":1,\"cnpSent\":5,\"RNR sent\":9}]\n",
        "[1,0]<stdout>:link irdma0/1 cnpSent 5 RNR sent 9\r\n",
        "/sys/class/infiniband/irdma0/ports/1/hw_counters/cnpSent:5\n/sys/class/infiniband/irdma0/ports/1/"
        "hw_counters/RNR sent:9\n"}) {
    const auto evidence = gathered({{"a.txt", text}});
    ASSERT_NE(counter(evidence, "a", "RNR sent"), nullptr) << text;
    EXPECT_EQ(counter(evidence, "a", "RNR sent")->readings[0].value, 9u) << text;
    EXPECT_EQ(counter(evidence, "a", "cnpSent")->canonical, "cnp_sent") << text;
  }
}

TEST(Ingest, pdsh_mixes_hosts_and_they_are_told_apart) {
  const auto evidence =
      gathered({{"all.txt",
                 "n1: NIC statistics:\nn2: NIC statistics:\nn1:      rx_discards_phy: 5\n"
                 "n2:      rx_discards_phy: 6\nn1:      tx_discards_phy: 1\nn2:      tx_discards_phy: 2\n"}});
  ASSERT_NE(counter(evidence, "n1", "rx_discards_phy"), nullptr);
  EXPECT_EQ(counter(evidence, "n1", "rx_discards_phy")->readings[0].value, 5u);
  EXPECT_EQ(counter(evidence, "n2", "tx_discards_phy")->readings[0].where.line, 6u);
}

TEST(Ingest, perftest_is_read_in_all_units_and_without_a_unit_not_scored) {
  const std::string head =
      "                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_0\n Number of "
      "qps   : 4\n Mtu             : 4096[B]\n";
  const auto mib = gathered(
      {{"p.txt",
        head + " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n 65536   "
               "   5000             11012.51            10998.07\t\t     0.175969\n"}});
  ASSERT_EQ(mib.perftest.size(), 1u);
  EXPECT_NEAR(*mib.perftest[0].goodput_gbps, 92.26, 0.01);
  EXPECT_EQ(mib.perftest[0].qps, 4.0);
  EXPECT_EQ(mib.perftest[0].where.line, 6u);
  const auto json = gathered({{"p.json",
                               "{\ntest_info: {\ntest: RDMA_Write_BW_Test,\nDevice: "
                               "\"mlx5_0\",\n},\nresults: {\nMsgSize: 65536,\nBW_average: 92.26,\n}\n}\n"}});
  ASSERT_EQ(json.perftest.size(), 1u);
  EXPECT_EQ(json.perftest[0].bare_number, 92.26);
  EXPECT_FALSE(json.perftest[0].goodput_gbps);
  EXPECT_EQ(json.perftest[0].test, "write_bw");
  ASSERT_EQ(json.problems.size(), 1u);
}

TEST(Ingest, rows_of_nccl_tests_are_read_in_the_columns_of_all_versions) {
  for (const char* line : {"     8388608       2097152     float     sum      -1   412.70   20.33   38.11    "
                           "   0   416.83   20.12   37.73     N/A\n",
                           "     8388608       2097152     float     sum   412.70   20.33   38.11  5e-07   "
                           "416.83   20.12   37.73  5e-07\n",
                           "     8388608       2097152     float   412.70   20.33   38.11  0e+00   416.83   "
                           "20.12   37.73  0e+00\n"}) {
    const auto evidence = gathered({{"o.txt", line}});
    ASSERT_EQ(evidence.collectives.size(), 1u) << line;
    EXPECT_EQ(evidence.collectives[0].rows[0].busbw_gBps, 38.11) << line;
    EXPECT_EQ(evidence.collectives[0].rows[0].busbw_in_gBps, 37.73) << line;
    EXPECT_EQ(evidence.collectives[0].wrong.value_or(0), 0) << line;
  }
}

TEST(Ingest, completion_errors_of_four_generations_have_a_status) {
  for (const char* line :
       {"h:1:2 [0] NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129\n",
        "h:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.1<5> with error 12, opcode 0, len 0, "
        "vendor err 129 (Recv)\n",
        "h:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.1<5> with status=12 opcode=1 len=0 "
        "vendor err 129 (Send)\n",
        "h:1:2 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.1<5> with "
        "status=IBV_WC_RETRY_EXC_ERR(12) opcode=X(1) vendor_err=129 hca mlx5_0\n",
        " Failed status 12: wr_id 0 syndrom 0x81\n",
        " Failed status-transport retry counter exceeded (12): wr_id 0 syndrom 0x81\n"}) {
    const auto evidence = gathered({{"a.log", line}});
    ASSERT_EQ(evidence.events.size(), 1u) << line;
    EXPECT_EQ(evidence.events[0].kind, "wc-error") << line;
    EXPECT_EQ(evidence.events[0].status, 12.0) << line;
  }
}

TEST(Ingest, short_texts_are_read_where_they_were_moved_to) {
  // A text of few bytes lies within its string object: views into it must not outlive a move.
  for (const char* text : {"Nev", "x", "a: 1", "a: 1\nb: 2"}) {
    const Evidence evidence = gathered({{"a.txt", text}});
    EXPECT_EQ(evidence.sources.size(), 2U);
  }
}

TEST(Ingest, a_server_of_perftest_that_waits_is_no_banner_of_a_host) {
  const Evidence evidence = gathered({{"receiver.txt",
                                       "************************************\n"
                                       "* Waiting for client to connect... *\n"
                                       "************************************\n"
                                       "ethtool -S eth0\nNIC statistics:\n     rx_prio3_pause: 1\n"}});
  ASSERT_EQ(evidence.hosts.size(), 1U);
  EXPECT_EQ(evidence.hosts.front().name, "receiver");
}

TEST(Page, shows_nothing_that_a_terminal_obeys) {
  Bundle bundle;
  bundle.host = "node\x1b[2J\nHEALTHY";
  Snapshot snapshot;
  snapshot.sources.push_back(
      {"ethtool -S eth0\x07", "", "eth0", "NIC statistics:\n  rx\x1b]0;title\x07: 1\n", ""});
  bundle.snapshots.push_back(snapshot);
  const std::string json = to_json(bundle);
  const Evidence evidence =
      gathered({{"a\x1b[31m.json", json}, {"b.json", "{\"schema\": \"mroce.doctor.bundle/\\u001b9\"}"}});
  const std::string page = page_of(judge(evidence, builtin_rulebook()),
                                   [](Ink, std::string_view word) { return std::string(word); });
  for (const char c : page) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ') << page;
  EXPECT_EQ(page.find("\nHEALTHY"), std::string::npos);
}

TEST(Bundle, what_is_written_is_read_again_with_host_phase_and_time) {
  Bundle bundle;
  bundle.writer = "mroce test";
  bundle.host = "nodeA";
  bundle.role = Role::kSender;
  bundle.snapshots = {{Phase::kStart,
                       1'000'000'000,
                       {{"ethtool -S eth0", "", "", "NIC statistics:\n     rx_discards_phy: 5\n", ""}}},
                      {Phase::kEnd,
                       11'000'000'000,
                       {{"ethtool -S eth0", "", "", "NIC statistics:\n     rx_discards_phy: 9\n", ""},
                        {"/sys/class/infiniband/mlx5_0/ports/1/state", "", "", "4: ACTIVE\n", ""},
                        {"nvidia-smi -q", "", "", std::nullopt, "no such program"}}}};
  bundle.command = CommandRun{{"ib_write_bw"}, 0, "\xff no UTF-8", 0, 0};
  const auto evidence = gathered({{"whatever.json", to_json(bundle) + to_json(bundle)}});
  ASSERT_EQ(evidence.hosts.size(), 1u);
  EXPECT_EQ(evidence.hosts[0].role, Role::kSender);
  EXPECT_EQ(evidence.seconds, 10.0);
  const Counter* discards = counter(evidence, "nodeA", "rx_discards_phy");
  ASSERT_NE(discards, nullptr);
  EXPECT_EQ(discards->delta, 4.0);
  EXPECT_EQ(evidence.sources[discards->readings[0].where.source].inner, "ethtool -S eth0");
  ASSERT_FALSE(evidence.problems.empty());
  EXPECT_EQ(evidence.problems[0].reason, "not collected: no such program");
}

TEST(Bundle, two_runs_of_a_host_add_up_and_what_happened_between_them_does_not_count) {
  const auto run = [](int64_t begin_s, int before, int after) {
    const auto text = [](int value) {
      return "NIC statistics:\n     rx_discards_phy: " + std::to_string(value) + "\n";
    };
    Bundle bundle;
    bundle.writer = "mroce test";
    bundle.host = "nodeA";
    bundle.snapshots = {
        {Phase::kStart, begin_s * 1'000'000'000, {{"ethtool -S eth0", "", "", text(before), ""}}},
        {Phase::kEnd, (begin_s + 10) * 1'000'000'000, {{"ethtool -S eth0", "", "", text(after), ""}}}};
    return to_json(bundle);
  };
  // The driver was loaded anew between the runs, and the later one is read first.
  const auto evidence = gathered({{"b.json", run(100, 2, 9)}, {"a.json", run(1, 5000, 5004)}});
  const Counter* discards = counter(evidence, "nodeA", "rx_discards_phy");
  ASSERT_NE(discards, nullptr);
  EXPECT_EQ(discards->state, DeltaState::kOk);
  EXPECT_EQ(discards->delta, 11.0);
  EXPECT_EQ(evidence.seconds, 20.0);
}

TEST(LenientJson, broken_text_is_read_as_far_as_it_goes) {
  EXPECT_EQ(read_json("{a: 1, \"b\": [1, 2,], c: word}").value.items.size(), 3u);
  EXPECT_FALSE(read_json("{\"a\": 1,}").problem.empty());
  EXPECT_TRUE(read_json("{\"a\": [1, {\"b\": \"\\u00e9\"}]}").problem.empty());
  const auto cut = read_json("{\"a\": 1,\n\"b\": \"xy");
  EXPECT_EQ(cut.value.number_at("a"), 1.0);
  EXPECT_EQ(cut.problem_line, 2u);
  EXPECT_FALSE(read_json(std::string(1'000'000, '[')).problem.empty());
  EXPECT_FALSE(read_json(std::string(1'000'000, '{')).problem.empty());
}

}  // namespace
}  // namespace mroce::doctor
