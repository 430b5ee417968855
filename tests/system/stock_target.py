# SPDX-License-Identifier: Apache-2.0
"""Linux's own SRP target (LIO with ib_srpt) in a machine of the lab. It is configured only through
configfs."""

from __future__ import annotations

from tests.lab.guest import Guest

PORT = 5557
LIO = "/sys/kernel/config/target"
DISKS = "/run/lio"  # a tmpfs in the machine: its files can have holes, so UNMAP works

# Exits at the first error, because an incomplete target must not be tested.
CONFIGURE = """set -e
    mkdir -p /etc/target {disks}
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    modprobe -a target_core_mod target_core_file
    modprobe ib_srpt {parameters}
    mkdir -p {lio}/srpt && echo {port} > {lio}/srpt/discovery_auth/rdma_cm_port
    guid=$(cat /sys/class/infiniband/*/node_guid)
    group={lio}/srpt/$guid/$guid
    mkdir -p $group/acls/$LAB_ADDRESS
    number=0
    for words in {units}; do
        name=${{words%%:*}}; size=${{words#*:}}
        truncate -s $size {disks}/$name
        disk={lio}/core/fileio_0/$name
        mkdir -p $disk
        echo fd_dev_name={disks}/$name,fd_dev_size=$(stat -c %s {disks}/$name),fd_buffered_io=1 > $disk/control
        if [ {serials} = 1 ]; then echo serial-of-$name > $disk/wwn/vpd_unit_serial; fi
        echo 1 > $disk/enable
        echo 1 > $disk/attrib/emulate_tpu; echo 1 > $disk/attrib/emulate_tpws
        mkdir -p $group/lun/lun_$number && ln -s $disk $group/lun/lun_$number/port
        mkdir -p $group/acls/$LAB_ADDRESS/lun_$number
        ln -s $group/lun/lun_$number $group/acls/$LAB_ADDRESS/lun_$number/port
        number=$((number + 1))
    done
    echo 1 > $group/enable
"""
# Removes all objects that exist.
TAKE_DOWN = """
    for group in {lio}/srpt/*/*/enable; do [ -e $group ] && echo 0 > $group; done
    find {lio} -type l -name port -delete 2>/dev/null
    for kind in 'acls/*/lun_*' 'acls/*' 'lun/lun_*'; do rmdir {lio}/srpt/*/*/$kind 2>/dev/null; done
    for kind in '*/0x*' '*/*:*' '0x*' '*:*'; do rmdir {lio}/srpt/$kind 2>/dev/null; done
    rmdir {lio}/srpt {lio}/core/fileio_0/* {lio}/core/fileio_0 2>/dev/null
    rm -rf {disks}
    modprobe -r ib_srpt target_core_file target_core_mod
"""


class StockTarget:
    """The target. `units` maps the names of its files to their sizes, in the order of their LUNs.
    `parameters` are those of ib_srpt. If `serials` is false, the only designator of a unit is LIO's vendor
    id."""

    def __init__(self, guest: Guest, units: dict[str, str], parameters: str = "srp_max_req_size=8260",
                 serials: bool = True) -> None:
        self.guest = guest
        self.port = PORT
        self._units = units
        self._parameters = parameters
        self._serials = int(serials)

    @property
    def address(self) -> str:
        return f"{self.guest.address}:{self.port}"

    @property
    def login(self) -> str:
        """Returns the login options that name this target. ib_srpt accepts only its own identifiers."""
        guid = self.guest.run("cat /sys/module/ib_srpt/parameters/srpt_service_guid").stdout.strip().removeprefix("0x")
        return f"id_ext={guid} ioc_guid={guid}"

    def __enter__(self) -> StockTarget:
        units = " ".join(f"{name}:{size}" for name, size in self._units.items())
        self.guest.run(CONFIGURE.format(lio=LIO, disks=DISKS, port=self.port, units=units,
                                        parameters=self._parameters, serials=self._serials), 60)
        return self

    def __exit__(self, *_) -> None:
        if getattr(self.guest, "running", True):
            self.guest.run(TAKE_DOWN.format(lio=LIO, disks=DISKS), 90, check=False)

    def hide(self, number: int) -> None:
        """Hides the unit with this number from the initiator. Its file stays."""
        self.guest.run(f"cd {LIO}/srpt/0x*/0x*/acls/* 2>/dev/null || cd {LIO}/srpt/*:*/*:*/acls/*; rm lun_{number}/port && rmdir lun_{number}")

    def show(self, number: int, unit: int | None = None) -> None:
        """Shows the unit with this number to the initiator again, or another unit under this number."""
        unit = number if unit is None else unit
        self.guest.run(f"cd {LIO}/srpt/0x*/0x*/acls/* 2>/dev/null || cd {LIO}/srpt/*:*/*:*/acls/*; mkdir lun_{number} && "
                       f"ln -s ../../lun/lun_{unit} lun_{number}/port")

    def exchange(self, one: int, other: int) -> None:
        """Swaps the initiator's units with these numbers. The response to the next command to `one` reports the change."""
        self.hide(one)
        self.hide(other)
        self.show(one, other)
        self.show(other, one)

    def set(self, unit: str, attribute: str, value: int) -> None:
        self.guest.write(f"{LIO}/core/fileio_0/{unit}/attrib/{attribute}", str(value))
