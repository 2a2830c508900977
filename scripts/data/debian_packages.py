"""Fetches packages of the release in use with apt and unpacks them: no root, and nothing is installed."""
import os

from data_set import Unavailable, megabytes
from debian_lists import print_complaints, run


def unpack(names, lists, folder, say, show):
    """Puts each package's files into folder/NAME; apt has checked them against the release's signed lists.
    Returns the packages' versions."""
    debs = os.path.join(folder, "debs")
    os.makedirs(debs)
    say(f"downloading {', '.join(names)}")
    # Packages of the release itself, as its lists are: no update or other repository makes another set of them.
    wanted = [f"{name}/{lists.codename}" if lists.codename else name for name in names]
    download = run(["apt-get", "download", *lists.flags, *wanted], lambda: show(f"{megabytes(debs)} MB"), cwd=debs)
    found = {file.split("_")[0]: file for file in os.listdir(debs)}
    missing = [name for name in names if name not in found]
    if download.returncode != 0 or missing:
        print_complaints(download)
        raise Unavailable(
            f"apt-get download did not bring {', '.join(missing or names)} of {lists.release} "
            f"(exit code {download.returncode})",
            "check the network and the free space, and that apt's sources name main (Debian) or universe "
            "(Ubuntu); nothing half-done is kept: run it again")
    for name in names:
        done = run(["dpkg-deb", "-x", os.path.join(debs, found[name]), os.path.join(folder, name)])
        if done.returncode != 0:
            raise Unavailable(f"dpkg-deb cannot unpack {found[name]} ({done.stderr.strip()})",
                              "check the free space, then run it again")
    return {name: found[name].split("_")[1].replace("%3a", ":") for name in names}
