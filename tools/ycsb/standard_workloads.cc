// SPDX-License-Identifier: Apache-2.0
// YCSB's core workloads A to F. Documentation/examples/ycsb has the same texts as files to start from.
#include "tools/ycsb/workload.h"

namespace wss::ycsb {

static constexpr std::string_view kWorkloads[] = {
    R"(# Workload A. Update heavy: sessions recording recent actions
recordcount=1000
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload
readallfields=true
readproportion=0.5
updateproportion=0.5
scanproportion=0
insertproportion=0
requestdistribution=zipfian
)",
    R"(# Workload B. Read mostly: photo tagging
recordcount=1000
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload
readallfields=true
readproportion=0.95
updateproportion=0.05
scanproportion=0
insertproportion=0
requestdistribution=zipfian
)",
    R"(# Workload C. Read only: a cache of user profiles
recordcount=1000
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload
readallfields=true
readproportion=1
updateproportion=0
scanproportion=0
insertproportion=0
requestdistribution=zipfian
)",
    R"(# Workload D. Read latest: status updates
recordcount=1000
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload
readallfields=true
readproportion=0.95
updateproportion=0
scanproportion=0
insertproportion=0.05
requestdistribution=latest
)",
    R"(# Workload E. Short ranges: threaded conversations
recordcount=1000
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload
readallfields=true
readproportion=0
updateproportion=0
scanproportion=0.95
insertproportion=0.05
requestdistribution=zipfian
maxscanlength=100
scanlengthdistribution=uniform
)",
    R"(# Workload F. Read, modify, write: a user database
recordcount=1000
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload
readallfields=true
readproportion=0.5
updateproportion=0
scanproportion=0
insertproportion=0
readmodifywriteproportion=0.5
requestdistribution=zipfian
)",
};

std::string_view standard_workload(char letter) {
    return letter >= 'a' && letter <= 'f' ? kWorkloads[letter - 'a'] : std::string_view();
}

}  // namespace wss::ycsb
