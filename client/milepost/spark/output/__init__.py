"""The output of `Job.files`: published files, the manifest that lists them, the claim on an output directory, and the
readers.
"""
