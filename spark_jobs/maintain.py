"""Spark application of the step 'maintain': spark-submit maintain.py JOB_SPEC.json"""

import sys

from cdc_ops.core.operations import Step
from cdc_ops.jobs import main

if __name__ == "__main__":
    sys.exit(main(Step.MAINTAIN))
