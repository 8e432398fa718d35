// One reader for each format. It looks at line `at` and answers where it stopped: `at` itself if the line is
// none of its own. Readers never fail: what they do not understand they leave, what is wrong they name with
// its line.
#pragma once

#include <array>
#include <cstddef>

#include "doctor/ingest.h"
#include "doctor/lenient_json.h"
#include "doctor/text.h"

namespace mroce::doctor {

using Reader = size_t (*)(const Lines& lines, size_t at, Context& context);

size_t read_banner(const Lines& lines, size_t at, Context& context);  // prompts, banners, command lines
size_t read_ethtool_stats(const Lines& lines, size_t at, Context& context);  // ethtool -S
size_t read_ethtool(const Lines& lines, size_t at, Context& context);  // ethtool DEV, -a, -i, --show-fec
size_t read_sysfs(const Lines& lines, size_t at, Context& context);    // path:value
size_t read_rdma(const Lines& lines, size_t at, Context& context);     // rdma link, rdma statistic
size_t read_perftest(const Lines& lines, size_t at, Context& context);
size_t read_nccl_tests(const Lines& lines, size_t at, Context& context);
size_t read_nccl_log(const Lines& lines, size_t at, Context& context);
size_t read_ibstat(const Lines& lines, size_t at, Context& context);  // and ibv_devinfo
size_t read_lspci(const Lines& lines, size_t at, Context& context);
size_t read_qos(const Lines& lines, size_t at, Context& context);             // mlnx_qos, dcb pfc
size_t read_switch(const Lines& lines, size_t at, Context& context);          // SONiC
size_t read_switch_vendors(const Lines& lines, size_t at, Context& context);  // EOS, NX-OS, NVUE
size_t read_gpu(const Lines& lines, size_t at, Context& context);  // DCGM, nvidia-smi, rocm-smi, amd-smi
size_t read_host(const Lines& lines, size_t at,
                 Context& context);  // limits, environment, GIDs, GPUs, kernel log

// Does the JSON value have a form that we know? Then it is read.
bool read_json_document(JsonValue&& value, Context& context);
bool read_perftest_json(const JsonValue& value, Context& context);
bool read_nccl_json(const JsonValue& value, Context& context);
bool read_rdma_json(const JsonValue& value, Context& context);  // and ethtool, dcb
bool read_mroce_json(const JsonValue& value, Context& context);

size_t read_mroce_sockets(const Lines& lines, size_t at,
                          Context& context);  // "socket port 61440 local … drops 5"

// A path of sysfs or procfs that says something of the host as a whole: IOMMU, container, modules.
bool set_host_sign(std::string_view path, std::string_view value, uint32_t line, Context& context);
void set_sysfs(std::string_view path, std::string_view value, uint32_t line, Context& context);
std::string perftest_test_of(
    std::string_view text);  // "RDMA_Write BW Test", "ib_write_bw" → "write_bw"; empty if none
std::optional<double> standard_duration(std::optional<double> bytes, std::optional<double> iterations,
                                        std::optional<double> goodput_gbps);

}  // namespace mroce::doctor
