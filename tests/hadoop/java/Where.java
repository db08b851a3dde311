package milepost.contract;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.AbstractFSContract;

/** Where the suites run: the file system and a directory in it, which the program is told as properties of Java. */
public final class Where extends AbstractFSContract {
    static final URI URI_OF_TESTS = URI.create(System.getProperty("contract.uri"));
    static final Path ROOT = new Path(System.getProperty("contract.root"));

    Where(Configuration configuration) {
        super(configuration);
        addConfResource("contract.xml");
    }

    /** The file system, anew, with the directory of tests as the one that relative paths begin in. */
    static FileSystem open(Configuration configuration) throws IOException {
        FileSystem opened = FileSystem.newInstance(URI_OF_TESTS, configuration);
        opened.setWorkingDirectory(opened.makeQualified(ROOT));
        return opened;
    }

    @Override
    public FileSystem getTestFileSystem() throws IOException {
        return open(getConf());
    }

    @Override
    public String getScheme() {
        return URI_OF_TESTS.getScheme();
    }

    @Override
    public Path getTestPath() {
        return new Path(ROOT, "contract");
    }
}
