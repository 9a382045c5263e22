"""The loops people really use, each training the same network on the same batches, to be compared with the plain one."""
