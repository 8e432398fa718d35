#include "net/pcapng_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "net/test_support.h"

namespace mroce::net {
namespace {

using ::testing::HasSubstr;

class TraceFile {
 public:
  TraceFile() : path_(::testing::TempDir() + "mroce-trace-" + std::to_string(getpid()) + ".pcapng") {}
  ~TraceFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string output;
  char buffer[512];
  while (pipe && std::fgets(buffer, sizeof buffer, pipe.get()) != nullptr) output += buffer;
  return output;
}

bool has_tshark() {
  return std::system("command -v tshark >/dev/null 2>&1") == 0;
}

TracedDatagram datagram(const char* from, const char* to) {
  TracedDatagram result;
  result.unix_ns = 1'700'000'000'123'456'789;
  result.from = {*parse_address(from), 40000};
  result.to = {*parse_address(to), 61440};
  result.ecn = Ecn::kCe;
  return result;
}

TEST(PcapngWriter, tshark_reads_back_addresses_ports_ecn_lengths_times_and_comments) {
  if (!has_tshark()) MROCE_CANNOT("no tshark on this host");
  const TraceFile file;
  {
    auto writer = PcapngWriter::open(file.path());
    ASSERT_TRUE(writer.has_value()) << writer.error();
    const std::vector<std::byte> bytes(101, std::byte{0x5a});  // odd, so that checksums pad
    const Slice slices[] = {{bytes.data(), 33}, {bytes.data() + 33, bytes.size() - 33}};
    ASSERT_TRUE(writer->write(datagram("192.0.2.1", "198.51.100.7"), slices));
    TracedDatagram second = datagram("2001:db8::1", "fe80::2");
    second.outgoing = false;
    second.comment = "dropped by impairment";
    ASSERT_TRUE(writer->write(second, slices));
    EXPECT_EQ(writer->written(), 2u);
  }
  const std::string fields = output_of(
      "tshark -r " + file.path() +
      " -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -T fields -E separator=/s -e frame.time_epoch "
      "-e ip.src -e "
      "ip.dst -e ipv6.src -e ipv6.dst -e udp.srcport -e udp.dstport -e udp.length -e ip.checksum.status -e "
      "udp.checksum.status -e ip.dsfield.ecn -e ipv6.tclass.ecn -e frame.packet_flags_direction -e "
      "frame.comment "
      "2>/dev/null");
  EXPECT_THAT(fields, HasSubstr("1700000000.123456789 192.0.2.1 198.51.100.7   40000 61440 109 1 1 3 "));
  EXPECT_THAT(fields, HasSubstr("1700000000.123456789   2001:db8::1 fe80::2 40000 61440 109  1  3 "));
  EXPECT_THAT(fields, HasSubstr("dropped by impairment"));
}

TEST(PcapngWriter, stops_at_the_maximum_size_and_says_so) {
  const TraceFile file;
  constexpr uint64_t kMaxBytes = 10000;
  {
    auto writer = PcapngWriter::open(file.path(), kMaxBytes);
    ASSERT_TRUE(writer.has_value());
    const std::vector<std::byte> bytes(1000);
    const Slice slice{bytes.data(), bytes.size()};
    while (writer->write(datagram("127.0.0.1", "127.0.0.1"), {&slice, 1})) ASSERT_LT(writer->written(), 100u);
    EXPECT_EQ(writer->left_out(), 1u);
    EXPECT_EQ(writer->trouble(), "it has reached its maximum size");
    EXPECT_GE(writer->written(), 8u);
  }
  EXPECT_LE(std::filesystem::file_size(file.path()), kMaxBytes + 1500);
  if (!has_tshark()) MROCE_CANNOT("no tshark on this host");
  EXPECT_THAT(output_of("tshark -r " + file.path() + " -T fields -e frame.comment 2>&1"),
              HasSubstr("the trace has reached its maximum size"));
}

TEST(PcapngWriter, a_file_that_cannot_be_written_is_an_error) {
  EXPECT_THAT(PcapngWriter::open("/no/such/folder/x.pcapng").error(),
              HasSubstr("cannot write the trace /no/such"));
}

TEST(PcapngWriter, what_a_full_disk_did_not_take_is_counted_with_its_cause) {
  auto writer = PcapngWriter::open("/dev/full");
  ASSERT_TRUE(writer.has_value());
  const std::vector<std::byte> bytes(1000);
  const Slice slice{bytes.data(), bytes.size()};
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(writer->write(datagram("127.0.0.1", "127.0.0.1"), {&slice, 1}));
  EXPECT_FALSE(writer->lacks_any());  // they are in the buffer
  writer->close();
  EXPECT_TRUE(writer->lacks_any());
  EXPECT_EQ(writer->written(), 0u);
  EXPECT_EQ(writer->bytes(), 0u);
  EXPECT_EQ(writer->left_out(), 10u);
  EXPECT_EQ(writer->trouble(), "cannot write it: No space left on device");
}

// A limit of the file's size is a disk that becomes full in the middle of a packet.
TEST(PcapngWriter, a_file_that_takes_no_more_ends_behind_a_whole_packet) {
  const TraceFile file;
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{(1 << 20) + 100'000, (1 << 20) + 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    auto writer = PcapngWriter::open(file.path());
    const std::vector<std::byte> bytes(1000);
    const Slice slice{bytes.data(), bytes.size()};
    uint64_t offered = 1;
    while (writer->write(datagram("127.0.0.1", "127.0.0.1"), {&slice, 1})) ++offered;
    const bool counted = writer->written() + writer->left_out() == offered && writer->written() > 900 &&
                         writer->bytes() == std::filesystem::file_size(file.path());
    _exit(counted && writer->trouble() == "cannot write it: File too large" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  if (!has_tshark()) GTEST_SKIP() << "no tshark on this host";
  EXPECT_THAT(output_of("tshark -r " + file.path() + " 2>&1 | tail -n 1"),
              testing::Not(HasSubstr("cut short")));
}

TEST(PcapngWriter, an_abandoned_writer_leaves_its_buffer_to_the_parent) {
  const TraceFile file;
  auto writer = PcapngWriter::open(file.path());
  ASSERT_TRUE(writer.has_value());
  writer->abandon();
  EXPECT_EQ(std::filesystem::file_size(file.path()), 0u);
}

}  // namespace
}  // namespace mroce::net
