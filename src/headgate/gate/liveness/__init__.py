"""Who is alive, told by the kernel: members by their pipes, programs by the mark they carry."""
