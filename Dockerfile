# A worker: Baton, git and bubblewrap on a slim Python, not as root.
# What the projects need to build and test (node, compilers) belongs into an image of your own, FROM this one.
FROM python:3.11.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap ca-certificates git openssh-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 baton \
    && install --directory --owner baton --group baton --mode 0700 /state /state/payloads

WORKDIR /opt/baton
COPY pyproject.toml constraints.txt README.md starter.py worker.py ./
COPY baton ./baton
COPY activities ./activities
COPY workflows ./workflows
COPY cli ./cli
COPY emulator ./emulator
RUN pip install --no-cache-dir --constraint constraints.txt '.[s3]'

USER baton
WORKDIR /home/baton
ENV PYTHONUNBUFFERED=1 BATON_STATE_DIR=/state
VOLUME /state

# The worker writes its number when it polls; /run/baton must start empty (a tmpfs).
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["sh", "-c", "kill -0 \"$(cat /run/baton/ready)\""]

CMD ["python", "-P", "-m", "worker", "--state", "/state", "--ready-file", "/run/baton/ready"]
