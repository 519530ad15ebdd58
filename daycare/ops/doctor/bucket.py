"""Where files are kept: whether the bucket can be asked and has what it should, by the running daemon's word."""

from collections.abc import Iterator

from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding


def bucket(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether files in a bucket can be read, and new ones go there."""
    section = context.config.files
    told = (context.status or {}).get("files") or {}
    if section.s3.bucket and section.s3.insecure and section.s3.endpoint.startswith("http://"):
        what = f"files cross the network to {section.s3.endpoint} without encryption"
        yield DoctorFinding("warn", "bucket", what, '[files.s3] endpoint = "https://..."')
    if told.get("placed") and not told["bucket"]:
        what = f"{told['placed']:,} files cannot be read: they lie in a bucket, and none is set"
        yield DoctorFinding("fail", "bucket", what, "[files.s3] bucket in the config")
    elif not section.s3.bucket:
        yield DoctorFinding("ok", "bucket", "files are kept in the database")
    elif not told:
        yield DoctorFinding("ok", "bucket", f"files go to {section.backend}; the bucket is tried once a daemon runs")
    elif told["trouble"]:
        yield DoctorFinding("fail", "bucket", told["trouble"], told["hint"])
    elif told["lost"]:
        what = f"{told['lost']:,} files were found lost or changed in the bucket {told['bucket']}"
        yield DoctorFinding("fail", "bucket", what, "daycare health names them; put these objects back from a copy")
    else:
        waiting = f"; {told['waiting']:,} are still to be carried there" if told["waiting"] else ""
        yield DoctorFinding("ok", "bucket", f"{told['placed']:,} files lie in the bucket {told['bucket']}{waiting}")
