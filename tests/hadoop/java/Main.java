package milepost.contract;

import java.io.PrintStream;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs all suites, or those that are named, and prints a line for each test: how it ended, which it is, and why. */
public final class Main extends RunListener {
    private static final PrintStream OUT = System.out;
    private final Map<String, String> ends = new HashMap<>();

    public static void main(String[] named) {
        System.setOut(System.err); // the tests print, too
        JUnitCore runner = new JUnitCore();
        runner.addListener(new Main());
        Class<?>[] suites = Suites.class.getDeclaredClasses();
        Arrays.sort(suites, Comparator.comparing(Class::getSimpleName));
        for (Class<?> suite : suites) {
            if (named.length == 0 || Arrays.asList(named).contains(suite.getSimpleName())) {
                runner.run(suite);
            }
        }
        OUT.println("ended");
        System.exit(0);
    }

    @Override
    public void testFailure(Failure failure) {
        ends.put(name(failure.getDescription()), "failed\t" + first(failure));
        if (failure.getDescription().isSuite()) {
            testFinished(failure.getDescription());
        }
    }

    @Override
    public void testAssumptionFailure(Failure failure) {
        ends.put(name(failure.getDescription()), "skipped\t" + first(failure));
    }

    @Override
    public void testIgnored(Description test) {
        OUT.println(name(test) + "\tskipped\tignored");
    }

    @Override
    public void testFinished(Description test) {
        String end = ends.remove(name(test));
        OUT.println(name(test) + "\t" + (end == null ? "passed\t" : end));
    }

    private static String name(Description test) {
        String suite = test.getClassName().replaceFirst(".*[.$]", "");
        return test.getMethodName() == null ? suite : suite + "." + test.getMethodName();
    }

    private static String first(Failure failure) {
        Throwable thrown = failure.getException();
        String[] lines = String.valueOf(thrown.getMessage()).split("\\R", 2);
        return thrown.getClass().getName() + ": " + lines[0].replace('\t', ' ');
    }
}
