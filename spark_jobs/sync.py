"""Spark application of the step 'sync'; run by spark-submit with the path of a JobSpec."""

import sys

from cdc_ops.core.operation.job import Step
from cdc_ops.jobs import main

if __name__ == "__main__":
    sys.exit(main(Step.SYNC))
