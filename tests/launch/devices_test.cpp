// What run.device means on machines of all kinds; what the machine here has shows in `pipeline devices`.
#include <gmock/gmock.h>

#include "core/launch/devices.hpp"

namespace pipeline::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

CudaDevice gpu(const char* name, int major, int minor) {
  return {.name = name, .memory = uint64_t{80} << 30, .major = major, .minor = minor};
}

constexpr int kNewDriver = 90000;  // for any CUDA that LibTorch may be built for

Devices machine(int driver, std::vector<CudaDevice> gpus) {
  Devices devices;
  devices.cuda_driver = driver;
  devices.cuda = std::move(gpus);
  leave_out_unusable(devices);
  return devices;
}

TEST(DevicesTest, AUsableDeviceIsChosenWithoutAWord) {
  const Devices devices = machine(kNewDriver, {gpu("NVIDIA H100", 9, 0)});
  for (const char* wanted : {"auto", "cuda"}) {
    const DeviceChoice choice = choose_device(wanted, devices);
    EXPECT_TRUE(choice.cuda);
    EXPECT_THAT(choice.warning + choice.problem, IsEmpty());
  }
  EXPECT_FALSE(choose_device("cpu", devices).cuda);
}

TEST(DevicesTest, AutoIsTheCpuWithoutAWordOnlyWhereThereIsNothingElse) {
  Devices hidden;  // by CUDA_VISIBLE_DEVICES
  hidden.cuda_driver = kNewDriver;
  for (const Devices& devices : {Devices{}, hidden}) {
    const DeviceChoice choice = choose_device("auto", devices);
    EXPECT_FALSE(choice.cuda);
    EXPECT_THAT(choice.warning + choice.problem, IsEmpty());
  }
  EXPECT_THAT(choose_device("cuda", Devices{}).problem, HasSubstr("no NVIDIA driver"));
  EXPECT_THAT(choose_device("cuda", hidden).problem, HasSubstr("the driver shows none"));
  ::setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  EXPECT_THAT(choose_device("cuda", hidden).problem, HasSubstr("CUDA_VISIBLE_DEVICES=-1"));
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(DevicesTest, ADriverThatFailsIsSaid) {
  Devices failed;
  failed.cuda_driver = kNewDriver;
  failed.cuda_problem = "cuInit failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
  const DeviceChoice choice = choose_device("auto", failed);
  EXPECT_FALSE(choice.cuda);
  EXPECT_THAT(choice.warning, AllOf(HasSubstr(failed.cuda_problem), HasSubstr("run.device = \"cpu\"")));
  EXPECT_THAT(choose_device("cuda", failed).problem, HasSubstr(failed.cuda_problem));
  EXPECT_THAT(choose_device("cpu", failed).warning, IsEmpty());
}

TEST(DevicesTest, AnOldDriverIsSaid) {
  const Devices devices = machine(12040, {gpu("NVIDIA H100", 9, 0)});
  EXPECT_TRUE(devices.cuda.empty());
  EXPECT_THAT(devices.cuda_problem, MatchesRegex("the NVIDIA driver supports CUDA 12\\.4, and LibTorch here "
                                                 "is built for CUDA 1[0-9]\\.[0-9]: install a newer driver"));
  EXPECT_THAT(choose_device("auto", devices).warning, HasSubstr("CUDA 12.4"));
}

TEST(DevicesTest, AnOldDeviceIsSaid) {
  const Devices devices = machine(kNewDriver, {gpu("Tesla V100", 7, 0)});
  EXPECT_TRUE(devices.cuda.empty());
  EXPECT_THAT(choose_device("cuda", devices).problem,
              AllOf(HasSubstr("Tesla V100 has compute capability 7.0"), HasSubstr("7.5 and later")));
  EXPECT_THAT(problem_of(gpu("Tesla T4", 7, 5)), IsEmpty());
}

TEST(DevicesTest, OneOldDeviceAmongOthersKeepsItsNumber) {
  const Devices devices = machine(kNewDriver, {gpu("Tesla V100", 7, 0), gpu("NVIDIA H100", 9, 0)});
  EXPECT_EQ(devices.cuda.size(), 2u);
  EXPECT_TRUE(choose_device("auto", devices).cuda);
  EXPECT_THAT(problem_of(devices.cuda[0]), HasSubstr("Tesla V100"));
}

TEST(Memory, TheOperatingSystemsNumbers) {
  const uint64_t peak = peak_host_memory();
  EXPECT_GT(peak, 1'000'000u);
  EXPECT_GT(find_devices().memory, peak);
}

}  // namespace
}  // namespace pipeline::launch
