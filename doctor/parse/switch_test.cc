#include <gtest/gtest.h>

#include "doctor/ingest.h"
#include "doctor/parse/table.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {
namespace {

Evidence read(std::string text, const char* name = "leaf1.txt") {
  Evidence evidence;
  ingest({name, name, std::move(text), false}, Context(evidence, builtin_rulebook()));
  assemble(evidence, builtin_rulebook());
  return evidence;
}

// The last reading of this counter of this port, wherever it is; -1 if nobody has it.
double reading(const Evidence& evidence, std::string_view port, std::string_view name,
               std::string_view canonical) {
  for (const Host& host : evidence.hosts)
    for (const Port& each : host.ports)
      for (const Counter& counter : each.counters)
        if (each.netdev == port && counter.vendor_name == name && counter.canonical == canonical)
          return host.role == Role::kSwitch ? static_cast<double>(counter.readings.back().value) : -2;
  return -1;
}

TEST(Table, cells_are_found_where_the_dashes_are) {
  const DashColumns columns = dash_columns("-----  ------  ---");
  EXPECT_EQ(cells_of("Eth0   3.2 MB   12", columns), (std::vector<std::string_view>{"Eth0", "3.2 MB", "12"}));
  EXPECT_EQ(cells_of("Eth0", columns), (std::vector<std::string_view>{"Eth0", "", ""}));
  EXPECT_EQ(dash_columns("--- - x").size(), 0u);
  EXPECT_EQ(dash_columns("-------").size(), 0u);
}

TEST(Sonic, pause_is_counted_in_both_directions) {
  const auto evidence = read(
      "admin@leaf1:~$ show pfc counters\nLast cached time was 2024-01-01 00:00:00\n"
      "  Port Rx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7\n"
      "---------  ------  ------  ------  ------  ------  ------  ------  ------\n"
      "Ethernet0       0       0       0   1,200       0       0       0       0\n"
      "Ethernet4     N/A       0       0       7       0       0       0       0\n\n"
      "  Port Tx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7\n"
      "---------  ------  ------  ------  ------  ------  ------  ------  ------\n"
      "Ethernet0       0       0       0       3       0       0       0       0\n");
  EXPECT_EQ(evidence.hosts.at(0).name, "leaf1");
  EXPECT_EQ(reading(evidence, "Ethernet0", "PFC3 Rx", "rx_pause_frames"), 1200);
  EXPECT_EQ(reading(evidence, "Ethernet0", "PFC3 Tx", "tx_pause_frames"), 3);
  EXPECT_EQ(reading(evidence, "Ethernet4", "PFC0 Rx", "rx_pause_frames"), -1) << "N/A is not zero";
}

TEST(Sonic, interfaces_have_cells_of_two_words) {
  const auto evidence = read(
      "    IFACE    STATE    RX_OK       RX_BPS    RX_UTIL    RX_ERR    RX_DRP    RX_OVR    TX_OK       "
      "TX_BPS    TX_UTIL    TX_ERR    TX_DRP    TX_OVR\n"
      "---------  -------  -------  -----------  ---------  --------  --------  --------  -------  "
      "-----------  ---------  --------  --------  --------\n"
      "Ethernet0        U    5,000  10.20 MB/s      0.10%         2         9         0    6,000    0.00 B/s "
      "     0.00%         0        41         0\n");
  EXPECT_EQ(reading(evidence, "Ethernet0", "RX_OK", "rx_packets"), 5000);
  EXPECT_EQ(reading(evidence, "Ethernet0", "TX_DRP", "tx_discard"), 41);
  EXPECT_EQ(reading(evidence, "Ethernet0", "RX_DRP", "rx_refused"), 9);
}

TEST(Sonic, queues_have_drops_and_marks_by_class) {
  const auto evidence = read(
      "     Port    TxQ    Counter/pkts    Counter/bytes    Drop/pkts    Drop/bytes\n"
      "---------  -----  --------------  ---------------  -----------  ------------\n"
      "Ethernet0    UC0              10             1000            0             0\n"
      "Ethernet0    UC3           2,000          8000000           55        220000\n"
      "Ethernet0   MC10               1                1            1             1\n\n"
      "     Port    TxQ    WredDrp/pkts    WredDrp/bytes    EcnMarked/pkts    EcnMarked/bytes\n"
      "---------  -----  --------------  ---------------  ----------------  -----------------\n"
      "Ethernet0    UC3               4             4000               900             900000\n");
  EXPECT_EQ(reading(evidence, "Ethernet0", "UC3 Drop/pkts", "tx_discard"), 55);
  EXPECT_EQ(reading(evidence, "Ethernet0", "UC3 EcnMarked/pkts", "ecn_marks_made"), 900);
  EXPECT_EQ(reading(evidence, "Ethernet0", "UC0 Counter/pkts", "tx_packets"), 10);
}

TEST(Sonic, priority_groups_have_peaks_or_drops_as_their_title_says) {
  const std::string rows = "     Port    PG0    PG3\n---------  -----  -----\nEthernet0      0   4096\n";
  const auto peaks = read("Ingress shared pool occupancy per PG:\n" + rows);
  EXPECT_EQ(reading(peaks, "Ethernet0", "PG3", "buffer_peak"), 4096);
  const auto drops = read("Ingress PG dropped packets:\n" + rows);
  EXPECT_EQ(reading(drops, "Ethernet0", "PG3 drops", "rx_discard"), 4096);
  EXPECT_EQ(reading(drops, "Ethernet0", "PG3", "buffer_peak"), -1);
  const auto queues = read("     Port    UC0    UC3\n---------  -----  -----\nEthernet0      0   8192\n");
  EXPECT_EQ(reading(queues, "Ethernet0", "UC3", "buffer_peak"), 8192);
}

TEST(Eos, pause_octets_and_discards_are_read) {
  const auto evidence = read(
      "Port         RxPfc      TxPfc\nEt1/1          120          3\n\n"
      "Port      InOctets  InUcastPkts  InMcastPkts  InBcastPkts\nEt1/1      9000000         6000            "
      "0            0\n\n"
      "Port      InDiscards  OutDiscards\nEt1/1              2           17\n");
  EXPECT_EQ(reading(evidence, "Et1/1", "RxPfc", "rx_pause_frames"), 120);
  EXPECT_EQ(reading(evidence, "Et1/1", "InOctets", "rx_bytes"), 9000000);
  EXPECT_EQ(reading(evidence, "Et1/1", "OutDiscards", "tx_discard"), 17);
}

TEST(Nxos, pause_has_a_bitmap_of_classes) {
  const auto evidence = read(
      "------------------------------------------------------------\n"
      "Port               Mode Oper(VL bmap)  RxPPP      TxPPP\n"
      "------------------------------------------------------------\n\n"
      "Ethernet1/1        Auto Off            0          0\n"
      "Ethernet1/2        On   On  (8)        12         5\n");
  EXPECT_EQ(reading(evidence, "Ethernet1/2", "RxPPP", "rx_pause_frames"), 12);
  const auto& ports = evidence.hosts.at(0).ports;
  EXPECT_EQ(last_setting(ports.at(0).settings, "pfc.enabled")->text, "none");
  EXPECT_EQ(last_setting(ports.at(1).settings, "pfc.enabled")->text, "3");
}

TEST(Nxos, tail_drops_belong_to_groups_and_what_follows_is_not_swallowed) {
  const auto evidence = read(
      "Egress Queuing for Ethernet1/1 [System]\n-----\n|              QOS GROUP 3              |\n"
      "|                   Tx Pkts |     26|   0|\n| WRED/AFD & Tail Drop Pkts |     9|   2|\n"
      "PFC Statistics\n-----\nTxPPP:        4,   RxPPP:       7\n-----\n"
      "$ ethtool -S eth0\nNIC statistics:\n     rx_discards_phy: 5\n");
  EXPECT_EQ(reading(evidence, "Ethernet1/1", "group 3 Tail Drop Pkts", "tx_discard"), 11);
  EXPECT_EQ(reading(evidence, "Ethernet1/1", "RxPPP", "rx_pause_frames"), 7);
  EXPECT_NE(reading(evidence, "eth0", "rx_discards_phy", "rx_discard"), -1);
}

TEST(Nvue, keys_belong_to_the_section_above_them) {
  const auto evidence = read(
      "cumulus@leaf1:mgmt:~$ nv show interface swp16 qos roce counters\n"
      "                           operational  applied\n-------------------------  -----------  -------\n"
      "rx-stats\n  rx-pfc-stats\n    pause-duration           0\n    pause-packets            31\n"
      "  rx-roce-stats\n    no-buffer-discard        4\ntx-stats\n  tx-ecn-stats\n    ecn-marked-packets     "
      "  1,900\n"
      "  tx-pfc-stats\n    pause-packets            2\n");
  EXPECT_EQ(reading(evidence, "swp16", "rx-pfc-stats pause-packets", "rx_pause_frames"), 31);
  EXPECT_EQ(reading(evidence, "swp16", "tx-pfc-stats pause-packets", "tx_pause_frames"), 2);
  EXPECT_EQ(reading(evidence, "swp16", "tx-ecn-stats ecn-marked-packets", "ecn_marks_made"), 1900);
  EXPECT_EQ(reading(evidence, "swp16", "rx-roce-stats no-buffer-discard", "rx_discard"), 4);
}

TEST(Switch, tables_among_a_host_s_own_outputs_make_no_switch_of_the_host) {
  const auto evidence = read(
      "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0\n"
      "  Port Rx    PFC0    PFC3\n---------  ------  ------\nEthernet0       0       9\n"
      "link mlx5_0/1 rp_cnp_handled 5\n",
      "nodeA.txt");
  ASSERT_EQ(evidence.hosts.size(), 2u);
  EXPECT_EQ(evidence.hosts[0].role, Role::kUnknown);
  EXPECT_EQ(evidence.hosts[0].ports.size(), 1u);
  EXPECT_EQ(evidence.hosts[1].name, "switch");
  EXPECT_EQ(reading(evidence, "Ethernet0", "PFC3 Rx", "rx_pause_frames"), 9);
}

}  // namespace
}  // namespace mroce::doctor
