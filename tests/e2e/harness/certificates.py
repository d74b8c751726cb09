"""An authority of the test's own, and certificates of it, by the openssl command."""
import os
import shutil
import ssl
import subprocess
import time

from harness.wait import patience

# Of `openssl ca` every version takes an end that is past; from 3.4 on `openssl x509` refuses it.
ISSUING = """[ca]
default_ca = own
[own]
database = issued.txt
new_certs_dir = .
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
"""


def openssl(*words, directory):
    done = subprocess.run(["openssl", *words], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=patience(60), check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


class Pair:
    """A certificate and its key, as paths."""

    def __init__(self, cert, key):
        self.cert, self.key = cert, key

    def replace_by(self, other):
        """What a renewal does to the files; each is whole at any moment."""
        for ours, theirs in ((self.key, other.key), (self.cert, other.cert)):
            shutil.copy(theirs, f"{ours}.new")
            os.chmod(f"{ours}.new", 0o600)
            os.rename(f"{ours}.new", ours)

    def serial(self):
        return openssl("x509", "-in", self.cert, "-noout", "-serial", directory="/").strip().split("=")[1]


class Authority:
    def __init__(self, directory, name="authority"):
        self.directory = os.path.join(directory, name)
        os.mkdir(self.directory)
        self.cert, self.key = os.path.join(self.directory, "ca.pem"), os.path.join(self.directory, "ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
                "-keyout", self.key, "-out", self.cert, "-subj", f"/CN={name}",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign", directory=self.directory)  # Python 3.13 asks for it
        for file, said in (("ca.conf", ISSUING), ("issued.txt", "")):
            with open(os.path.join(self.directory, file), "w", encoding="ascii") as out:
                out.write(said)

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1,IP:127.0.0.2,IP:::1", days=30, usage="serverAuth"):
        """days -1: it has expired."""
        made = Pair(os.path.join(self.directory, f"{name}.pem"), os.path.join(self.directory, f"{name}.key"))
        request, more = os.path.join(self.directory, f"{name}.csr"), os.path.join(self.directory, f"{name}.ext")
        with open(more, "w", encoding="ascii") as out:
            out.write(f"subjectAltName={names}\nextendedKeyUsage={usage}\nauthorityKeyIdentifier=keyid\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", made.key,
                "-out", request, "-subj", f"/CN={name}", directory=self.directory)
        begin, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + at * 86400)) for at in (-2, days))
        openssl("ca", "-batch", "-notext", "-config", "ca.conf", "-cert", self.cert, "-keyfile", self.key, "-in", request,
                "-startdate", begin, "-enddate", end, "-extfile", more, "-out", made.cert, directory=self.directory)
        return made

    def context(self, pair=None):
        """Of a client that trusts this authority."""
        made = ssl.create_default_context(cafile=self.cert)
        if pair:
            made.load_cert_chain(pair.cert, pair.key)
        return made
