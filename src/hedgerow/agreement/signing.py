"""A networked model's own proof: every site's last receipt, and the coordinator's signature.

A receipt is the signed header of a site's last message in the run: what this study had cost it,
and where its ledger stood. The coordinator signs the model's digest, the study's hash and all
receipts together. Whoever has the study file can check all of it; nobody is asked.
"""

from __future__ import annotations

from hedgerow.agreement.run_folder import RunFolder
from hedgerow.agreement.study_file import StudyFile
from hedgerow.estimators import model_file
from hedgerow.secagg.encoding import digest
from hedgerow.secagg.keys import Identity
from hedgerow.transport.journal import receipts_of


def sign_model(folder: RunFolder, agreed: StudyFile, identity: Identity) -> None:
    """Adds `signed` to the model file; its content and digest stay as they are."""
    last = {
        name: held[-1]
        for place, name in enumerate(agreed.names)
        if (held := receipts_of(folder.path, place))
    }
    study = agreed.study.hash.hex()
    content = model_file.read(folder.model_file)
    message = signed_message(model_file.digest_of(content), study, last)
    signed = {"study": study, "receipts": last, "signature": identity.sign(message).hex()}
    model_file.add(folder.model_file, "signed", signed)


def signed_message(model_digest: str, study: str, receipts: dict[str, str]) -> bytes:
    """What the coordinator signs; receipts by name, so that none can be left out or exchanged."""
    parts = [text.encode() for pair in sorted(receipts.items()) for text in pair]
    return digest("signed model", model_digest.encode(), study.encode(), *parts)
