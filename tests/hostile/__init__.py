"""The hostile campaign: whatever anybody may send is sent to a real daemon, and none of it may harm anybody else."""
