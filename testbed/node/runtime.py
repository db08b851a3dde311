"""Sets up containerd, which runs the containers of a node and keeps everything below one directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from testbed.commands import program, run
from testbed.images.archive import Image, pack
from testbed.node.leftovers import CONTAINERS
from testbed.node.network import BRIDGE, PODS
from testbed.process import ProcessFailed

PAUSE = Image("local.test/pause:1", layers=(), entrypoint=("/pause",))
"""The image of the container that holds the namespaces of a Pod, and does nothing."""

_PAUSE_SOURCE = """\
#include <signal.h>
#include <unistd.h>
static void end(int signal) { (void)signal; _exit(0); }
int main(void) { signal(SIGTERM, end); for (;;) pause(); }
"""
_CONFIGURATION = """\
version = 3
root = "{directory}/root"
state = "{directory}/state"
[grpc]
  address = "{socket}"
[plugins.'io.containerd.internal.v1.opt']
  path = "{directory}/opt"
[plugins.'io.containerd.nri.v1.nri']
  disable = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
  # To lower the score takes CAP_SYS_RESOURCE, which a sandbox may lack.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "{runc}"
      Root = "{directory}/runc"
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{plugins}"]
    conf_dir = "{directory}/cni"
"""
_LONGEST_SOCKET = 106
"""The bytes of a socket's path that containerd takes; Linux takes one more."""

_PLUGINS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))


class Runtime:
    """A containerd that is set up below ``directory``, and has to be started with `flags`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.socket = directory / "containerd.sock"
        self.flags = ["--config", str(directory / "containerd.toml")]

    def prepare(self) -> None:
        """Write the configuration.

        Raises `ProcessFailed` if runc or the network plugins are missing, or a socket's path would be too long.
        """
        if len(longest := f"{self.socket}.ttrpc") > _LONGEST_SOCKET:
            raise ProcessFailed(f"a path of {_LONGEST_SOCKET} bytes is the longest for a socket, but not {longest}")
        (self._directory / "cni").mkdir(parents=True)
        (self._directory / "cni" / "10-pods.conflist").write_text(json.dumps(self._pods_network()))
        (self._directory / "containerd.toml").write_text(
            _CONFIGURATION.format(
                directory=self._directory,
                socket=self.socket,
                pause=PAUSE.name,
                runc=_found("runc"),
                plugins=_plugins(),
            )
        )

    def serves(self) -> bool:
        """Return whether it takes requests."""
        try:
            self.control("version")
        except ProcessFailed:
            return False
        return True

    def control(self, *arguments: str | Path) -> str:
        """Run ``ctr`` on the node's containers, and return what it printed. Raises `ProcessFailed`."""
        return run([program("ctr"), "--address", self.socket, "--namespace", CONTAINERS, *arguments])

    def load(self, archive: Path) -> None:
        """Let Pods run the images of an archive. Raises `ProcessFailed`."""
        self.control("images", "import", archive)

    def load_pause(self) -> None:
        """Make the image `PAUSE`, whose program only waits for SIGTERM, and load it."""
        home = self._directory / "pause"
        (home / "root").mkdir(parents=True)
        (home / "pause.c").write_text(_PAUSE_SOURCE)
        run(["gcc", "-static", "-Os", "-o", home / "root" / "pause", home / "pause.c"])
        run(["tar", "--create", "--file", home / "layer.tar", "--directory", home / "root", "."])
        self.load(pack([PAUSE.on(home / "layer.tar")], home / "pause.tar"))

    def process_of(self, container: str) -> int:
        """Return the id that the first process of a running container has on this machine. Raises `ProcessFailed`."""
        for line in self.control("tasks", "list").splitlines()[1:]:
            name, pid, *_ = line.split()
            if name == container:
                return int(pid)
        raise ProcessFailed(f"the container {container} does not run")

    def _pods_network(self) -> object:
        ipam = {
            "type": "host-local",
            "dataDir": str(self._directory / "addresses"),
            "ranges": [[{"subnet": PODS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "hairpinMode": True, "ipam": ipam}
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def _found(program: str) -> str:
    found = shutil.which(program, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        raise ProcessFailed(f"{program} is not installed (tools/node-packages brings what a node needs)")
    return found


def _plugins() -> Path:
    for directory in _PLUGINS:
        if (directory / "bridge").exists() and (directory / "host-local").exists():
            return directory
    raise ProcessFailed("the plugins of the container network are not installed (tools/node-packages brings them)")
